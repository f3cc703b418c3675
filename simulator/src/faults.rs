//! The one door through which trouble enters: rules that see every request and every webhook call.

use rewake_apiserver::request::{Request, Verb};

use crate::trace::Actor;

/// Which requests a rule concerns. What is `None` matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct When {
    /// Who asks: `user`, `restore-tool`, the subject's name, or a control loop's.
    pub by: Option<String>,
    /// The verb.
    pub verb: Option<Verb>,
    /// Only requests that change things.
    pub writes: bool,
    /// The plural, for example `statefulsets`.
    pub resource: Option<String>,
    /// The subresource; `Some("")` means the main resource only.
    pub subresource: Option<String>,
    /// The name.
    pub name: Option<String>,
}

/// What happens to a request that a rule concerns.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The server refuses it.
    Refuse {
        /// HTTP status code: 403, 409, 422, 429 or 500.
        code: u16,
        /// The sentence.
        message: String,
    },
    /// It is carried out, but whoever asked never hears of it.
    LoseAnswer,
    /// Whoever asked dies before it is sent.
    CrashBefore,
    /// Whoever asked dies once it is carried out, before the answer arrives.
    CrashAfter,
}

/// A rule, in force until it has struck `times` times.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Name in traces and for removing it.
    pub id: String,
    /// What it concerns.
    pub when: When,
    /// How many matching requests pass before it strikes.
    pub skip: u32,
    /// How often it strikes; `None` means until it is removed.
    pub times: Option<u32>,
    /// What it does.
    pub effect: Effect,
}

/// The rules in force, asked in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    webhooks_down: Vec<String>,
}

impl When {
    fn matches(&self, by: &Actor, request: &Request) -> bool {
        let is = |wanted: &Option<String>, actual: &str| wanted.as_deref().is_none_or(|wanted| wanted == actual);
        self.by.as_deref().is_none_or(|wanted| wanted == by.to_string())
            && self.verb.is_none_or(|verb| verb == request.verb)
            && (!self.writes || !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch))
            && is(&self.resource, &request.resource)
            && is(&self.subresource, &request.subresource)
            && is(&self.name, &request.name)
    }
}

impl Faults {
    /// Adds a rule.
    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    /// Removes the rules with this id; answers whether there were any.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.rules.len() + self.webhooks_down.len();
        self.rules.retain(|rule| rule.id != id);
        self.webhooks_down.retain(|down| down != id);
        before != self.rules.len() + self.webhooks_down.len()
    }

    /// Makes every webhook whose `CONFIGURATION/WEBHOOK` name contains `part` unreachable.
    pub fn webhook_down(&mut self, part: &str) {
        self.webhooks_down.push(part.to_owned());
    }

    /// Is this webhook unreachable?
    #[must_use]
    pub fn is_webhook_down(&self, name: &str) -> bool {
        self.webhooks_down.iter().any(|part| name.contains(part.as_str()))
    }

    /// What strikes this request, if anything does, with the id of the rule.
    pub fn strike(&mut self, by: &Actor, request: &Request) -> Option<(String, Effect)> {
        let at = self.rules.iter_mut().position(|rule| {
            if !rule.when.matches(by, request) {
                return false;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                return false;
            }
            true
        })?;
        let rule = &mut self.rules[at];
        let struck = (rule.id.clone(), rule.effect.clone());
        if let Some(times) = &mut rule.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.rules.remove(at);
            }
        }
        Some(struck)
    }
}

#[cfg(test)]
mod tests {
    use rewake_apiserver::request::User;

    use super::*;

    #[test]
    fn a_rule_lets_some_pass_strikes_and_is_gone() {
        let mut faults = Faults::default();
        let request = Request::new(Verb::Create, User::admin("a"), "apps/v1", "statefulsets", "team", "web");
        faults.add(Rule {
            id: "f".into(),
            when: When { resource: Some("statefulsets".into()), ..When::default() },
            skip: 1,
            times: Some(2),
            effect: Effect::LoseAnswer,
        });
        let struck: Vec<bool> = (0..4).map(|_| faults.strike(&Actor::User, &request).is_some()).collect();
        assert_eq!(struck, [false, true, true, false]);
    }

    #[test]
    fn a_rule_for_one_actor_leaves_the_others_alone() {
        let mut faults = Faults::default();
        let request = Request::new(Verb::Get, User::admin("a"), "v1", "services", "team", "web");
        let when = When { by: Some("restore-tool".into()), ..When::default() };
        faults.add(Rule { id: "f".into(), when, skip: 0, times: None, effect: Effect::CrashBefore });
        assert!(faults.strike(&Actor::User, &request).is_none());
        assert!(faults.strike(&Actor::Tool, &request).is_some());
        assert!(faults.remove("f"));
        assert!(faults.strike(&Actor::Tool, &request).is_none());
    }
}
