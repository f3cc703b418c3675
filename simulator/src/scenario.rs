//! Scenarios: one question a file, and the machinery that answers it.

pub mod check;
pub mod decode;
pub mod model;
pub mod read;
pub mod run;
pub mod yaml;

pub use model::Scenario;
pub use read::{ScenarioError, read};
pub use run::{Failure, Options, Outcome, Verdict};
