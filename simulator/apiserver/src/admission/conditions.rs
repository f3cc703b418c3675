//! Match conditions: CEL expressions that leave writes out.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go`.

