//! FlowSchemas, priority levels, APIServices.
//!
//! Source: `pkg/apis/flowcontrol/v1/defaults.go`, `kube-aggregator/pkg/apis/apiregistration/v1/defaults.go`.

use super::Strategy;
use super::fill::{fill, fill_zero, within};

const KIND: Strategy = Strategy { unconditional_update: false, generation: &["/spec"], ..Strategy::PLAIN };

pub(super) static FLOW_SCHEMAS: Strategy =
    Strategy { default: |flow| within(flow, "spec", |spec| fill_zero(spec, "matchingPrecedence", 1000)), ..KIND };

pub(super) static PRIORITY_LEVELS: Strategy = Strategy {
    default: |level| {
        within(level, "spec", |spec| {
            within(spec, "exempt", |exempt| {
                fill(exempt, "nominalConcurrencyShares", 0);
                fill(exempt, "lendablePercent", 0);
            });
            within(spec, "limited", |limited| {
                fill(limited, "nominalConcurrencyShares", 30);
                fill(limited, "lendablePercent", 0);
                within(limited, "limitResponse", |response| {
                    within(response, "queuing", |queuing| {
                        for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                            fill_zero(queuing, field, value);
                        }
                    });
                });
            });
        });
    },
    ..KIND
};

pub(super) static API_SERVICES: Strategy = Strategy {
    generation: &[],
    default: |service| {
        within(service, "spec", |spec| within(spec, "service", |reference| fill(reference, "port", 443)));
    },
    ..KIND
};
