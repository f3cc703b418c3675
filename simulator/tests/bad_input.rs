//! What bad input gets: file, line, column, the near name, exit code 2, before anything runs.

use std::process::Command;

use rstest::rstest;

const HEAD: &str = "question: Does it?\ncovers: [KD-01]\nsteps:\n";

/// Runs `rewake scenarios` on one file with this content.
fn rewake(content: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("it.yaml"), content).expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_rewake"))
        .args(["scenarios", "--scenarios"])
        .arg(folder.path())
        .output()
        .expect("rewake runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[rstest]
#[case::unknown_verb("- restor: nightly\n", "it.yaml:4:3: there is no verb `restor`; did you mean `restore`?")]
#[case::misspelt_field(
    "- backup: {name: n, namespace: [a]}\n",
    "a backup step has no field `namespace`; did you mean `namespaces`?"
)]
#[case::wrong_type("- sleep: [1]\n", "it.yaml:4:10: a string belongs here, but this is a list")]
#[case::no_time("- sleep: soon\n", "a time such as `30s`")]
#[case::missing_manifest("- apply: absent.yaml\n", "it.yaml:4:10: there is no file `absent.yaml`")]
#[case::no_such_step(
    "- settle:\n  id: done\n- same-uid: {kind: Pod, since: dnoe}\n",
    "no earlier step has the id `dnoe`; did you mean `done`?"
)]
#[case::no_such_backup("- restore: nightly\n", "no earlier step takes the backup `nightly`")]
#[case::no_such_profile(
    "- backup: {name: n, profile: velero-1.81}\n",
    "there is no restore tool profile `velero-1.81`; did you mean `velero-1.18`?"
)]
#[case::two_fields("- fault: {lose-answer: true, refuse: {code: 403}}\n", "a fault is one of")]
#[case::syntax("- apply: [\n", "this is not YAML")]
fn a_wrong_scenario_is_refused_before_anything_runs(#[case] step: &str, #[case] says: &str) {
    let (code, error) = rewake(&format!("{HEAD}{step}"));
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(says), "{error}");
}

#[rstest]
#[case::no_question("covers: []\nsteps: []\n", "opens with `question:`")]
#[case::bad_id("question: q\ncovers: [X-1]\nsteps: []\n", "`X-1` is no behaviour")]
#[case::no_safeguard(
    "question: q\ncovers: []\nsteps: []\nvariants:\n- {without: adopt_by_lable, harm: [{alarm: duplicates}]}\n",
    "did you mean `adopt_by_label`?"
)]
#[case::no_harm(
    "question: q\ncovers: []\nsteps: []\nvariants:\n- {without: adopt_by_label, harm: []}\n",
    "must show harm"
)]
#[case::no_oracle("question: q\ncovers: []\nsteps: []\naccepts: {duplicate: why}\n", "did you mean `duplicates`?")]
fn a_scenario_without_its_parts_is_refused(#[case] content: &str, #[case] says: &str) {
    let (code, error) = rewake(content);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains(says), "{error}");
}

#[test]
fn files_over_the_stated_size_are_refused() {
    let (code, error) = rewake(&format!("{HEAD}# {}\n", "x".repeat(2 << 20)));
    assert_eq!(code, Some(2));
    assert!(error.contains("at most 1048576 are read"), "{error}");
}

#[test]
fn a_filter_that_matches_nothing_names_the_near_one() {
    let output = Command::new(env!("CARGO_BIN_EXE_rewake"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["scenarios", "tools/restored-twise"])
        .output()
        .expect("rewake runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("did you mean `tools/restored-twice`?"));
}

#[test]
fn an_archive_that_is_none_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("nightly.tar.gz");
    std::fs::write(&file, "plain text").expect("a file");
    let output = Command::new(env!("CARGO_BIN_EXE_rewake"))
        .args(["backup", "inspect"])
        .arg(&file)
        .output()
        .expect("rewake runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not a gzip-compressed tar file"));
}
