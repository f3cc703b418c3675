#!/usr/bin/env bash
# What a machine needs beside Rust, and then the project's own task. Nothing is kept between runs.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo >/dev/null 2>&1; then
  echo "there is no cargo on this machine; install Rust (https://rustup.rs) first" >&2
  exit 1
fi
# Some dependencies compile a little C.
if ! command -v cc >/dev/null 2>&1; then
  apt-get update -qq && apt-get install -y -qq gcc libc6-dev
fi

cargo --version
rustc --version
export CARGO_TERM_COLOR=never RUST_BACKTRACE=1
time cargo xtask ci
