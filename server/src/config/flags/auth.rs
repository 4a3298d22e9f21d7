//! Section Auth: tokens and passwords.

use crate::config::values::Whole;

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Auth")]
pub(crate) struct AuthFlags {
    /// Kind of token that users get; only 'simple' is supported yet, 'jwt' is refused.
    #[arg(long, default_value = "simple")]
    pub(crate) auth_token: String,
    /// Cost of hashing a password, from 4 to 31.
    #[arg(long, default_value = "10")]
    pub(crate) bcrypt_cost: Whole,
    /// Seconds that an unused token lives.
    #[arg(long, default_value = "300")]
    pub(crate) auth_token_ttl: Whole,
}
