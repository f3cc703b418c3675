//! Rewake: does an operator survive the restore of a backup?
//!
//! Scenarios (YAML, one question a file) are replayed on an embedded Kubernetes control plane, on
//! virtual time: backup, disaster, restore, with the tools' own manners, while the controller is up,
//! down, or dies half-way. Checks, oracles and a reviewed snapshot of the final state judge the run.
//!
//! | module | what it is |
//! |---|---|
//! | [`world`] | a simulated cluster: control plane, clock, controller, tool; steps and forks |
//! | [`subject`] | the software under test; [`subject::reference`] is the one file that knows the reference controller |
//! | [`tools`] | backup and restore tools as models; archives |
//! | [`faults`] | the one door through which trouble enters |
//! | [`decisions`], [`trace`] | what could have gone otherwise, and what happened |
//! | [`scenario`] | reading and running scenarios |
//! | [`oracles`], [`snapshot`] | judging the end of a run |
//! | [`suite`], [`report`], [`coverage`] | many scenarios, and telling people about them |

pub mod bench;
pub mod cli;
pub mod cluster;
pub mod coverage;
pub mod decisions;
pub mod faults;
pub mod manifests;
pub mod oracles;
pub mod report;
pub mod scenario;
pub mod snapshot;
pub mod subject;
pub mod suite;
pub mod tools;
pub mod trace;
pub mod world;

pub use world::World;
