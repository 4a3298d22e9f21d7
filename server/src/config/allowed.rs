//! Who may call over HTTP: origins of browsers (`--cors`) and host names of requests (`--host-whitelist`).

use std::str::FromStr;

use super::url::UrlList;
use super::values::ValueError;

/// A set of names, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// Everything, as `*` or an empty list says.
    All,
    /// Only these, sorted.
    Only(Vec<String>),
}

impl Allowed {
    /// Whether `name` is in the set.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Allowed::All => true,
            Allowed::Only(names) => names.iter().any(|allowed| allowed == name),
        }
    }

    /// The set of the names in `text`, separated by commas.
    pub(crate) fn from_names(text: &str) -> Allowed {
        let mut names: Vec<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        if names.is_empty() || names.iter().any(|name| name == "*") {
            Allowed::All
        } else {
            Allowed::Only(names)
        }
    }
}

/// Origins: `*`, or URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origins(pub(crate) Allowed);

impl FromStr for Origins {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text.is_empty() || text == "*" {
            return Ok(Origins(Allowed::All));
        }
        let urls: UrlList = text.parse()?;
        Ok(Origins(Allowed::Only(urls.0.iter().map(|url| url.as_str().to_owned()).collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_urls_or_everything() {
        for (text, want, why) in [
            ("*", Some(true), "everything"),
            ("", Some(true), "empty is everything"),
            ("http://a:1,http://b:2", Some(true), "listed"),
            ("http://b:2", Some(false), "not listed"),
            ("a", None, "not a URL"),
            ("http://a:1,*", None, "the star stands alone"),
        ] {
            let origins = text.parse::<Origins>().ok();
            assert_eq!(origins.map(|origins| origins.0.contains("http://a:1")), want, "{text:?}: {why}");
        }
    }

    #[test]
    fn host_names_are_words_or_everything() {
        for (text, want, why) in [
            ("*", true, "everything"),
            ("", true, "empty is everything"),
            ("b,a", true, "listed"),
            ("b,*", true, "the star anywhere is everything"),
            ("b", false, "not listed"),
        ] {
            assert_eq!(Allowed::from_names(text).contains("a"), want, "{text:?}: {why}");
        }
    }
}
