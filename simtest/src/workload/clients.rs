//! One client: asks, waits, notes what came, and asks again until the work is done.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::Rng as _;
use rand::rngs::StdRng;
use tonic::Code;

use crate::client::Client;
use crate::history::{Clock, Operation, Outcome};
use crate::op::{Refusal, Request};
use crate::workload::knowledge::Knowledge;
use crate::workload::kubernetes::Habits;
use crate::workload::{Options, Profile, mixed};

/// Longest pause after a request that failed.
const BACK_OFF_MAX: Duration = Duration::from_millis(200);

/// What a client needs.
pub(crate) struct Asker {
    /// The client's number.
    pub(crate) client: u32,
    /// One for each channel.
    pub(crate) members: Vec<Client>,
    pub(crate) profile: Profile,
    pub(crate) random: StdRng,
    pub(crate) known: Arc<Mutex<Knowledge>>,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
}

impl Asker {
    /// Asks until there is nothing left to do; gives what was asked and answered.
    pub(crate) async fn run(mut self) -> Vec<Operation> {
        let mut habits = Habits::default();
        let mut operations = Vec::new();
        let mut member = self.client as usize % self.members.len();
        while let Some(request) = self.next(&mut habits) {
            let operation = self.ask(member, request).await;
            self.known.lock().learn(&operation.request, &operation.outcome);
            habits.answered(&operation.request, &operation.outcome);
            let failed = matches!(operation.outcome, Outcome::Unknown(_));
            operations.push(operation);
            if failed {
                member = (member + 1) % self.members.len();
                self.pause(BACK_OFF_MAX).await;
            } else {
                self.pause(self.options.pause_max).await;
            }
        }
        operations
    }

    fn next(&mut self, habits: &mut Habits) -> Option<Request> {
        let mut known = self.known.lock();
        if known.remaining == 0 || self.clock.elapsed() >= known.until {
            return None;
        }
        known.remaining -= 1;
        Some(match self.profile {
            Profile::Mixed => mixed::next(&mut self.random, &mut known),
            Profile::Kubernetes => habits.next(&mut self.random, &mut known),
        })
    }

    async fn pause(&mut self, most: Duration) {
        if !most.is_zero() {
            let pause = self.random.random_range(Duration::ZERO..=most);
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask(&mut self, member: usize, request: Request) -> Operation {
        ask(&mut self.members[member], self.client, &self.clock, self.options.request_timeout, request).await
    }
}

/// Asks once, for at most `timeout`.
pub(crate) async fn ask(
    member: &mut Client,
    client: u32,
    clock: &Clock,
    timeout: Duration,
    request: Request,
) -> Operation {
    let invoked = clock.now();
    let outcome = match tokio::time::timeout(timeout, member.ask(&request)).await {
        Ok(Ok(answer)) => Outcome::Answered(answer),
        Ok(Err(refusal)) if refusal.is_answer() => Outcome::Refused(refusal),
        Ok(Err(refusal)) => Outcome::Unknown(refusal),
        Err(_) => Outcome::Unknown(Refusal {
            code: Code::DeadlineExceeded as i32,
            text: format!("no answer within {timeout:?}"),
        }),
    };
    Operation { client, invoked, completed: clock.now(), request, outcome }
}
