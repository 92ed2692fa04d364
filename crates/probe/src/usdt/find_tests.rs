//! Requests against notes of files that need not be there.

use std::path::Path;

use super::*;

/// Makes the note of a probe.
fn note(provider: &str, name: &str, arguments: &str) -> Note {
    Note {
        provider: provider.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

/// Calls `act` with a program of two probes and two markers, and a library of one probe.
fn searched<T>(act: impl FnOnce(&mut Search<'_>) -> T) -> T {
    let files = Files {
        files: ["/a/program", "/a/lib.so"]
            .map(|path| Binary::at(Path::new(path)))
            .to_vec(),
        script: Some("/a/script".into()),
        gaps: vec!["process 7: gone".to_owned()],
    };
    let of_program = vec![
        note("app", "request", "4@%eax -8@$1 8@(%rsp)"),
        note("app", "request", "-4@%ebx -8@$2"),
        note("app", "begun", ""),
        note(MARKERS, "queue", "4@$17 -8@%rax"),
        note(MARKERS, "odd", "4@%eax -8@%rax"),
    ];
    let of_library = vec![note("lib", "lock", "8@%rdi")];
    let read = [("/a/program", of_program), ("/a/lib.so", of_library)];
    let mut search = Search {
        files: &files,
        read: read
            .map(|(path, notes)| (path.into(), Ok(notes)))
            .into_iter()
            .collect(),
        probes: Vec::new(),
    };
    act(&mut search)
}

/// Returns the probes that a request finds.
fn found(request: &str) -> Vec<Probe> {
    searched(|search| {
        search.add(&request.parse().unwrap()).unwrap();
        search
            .probes
            .iter()
            .map(|(_, probe)| probe.clone())
            .collect()
    })
}

/// Returns the error of a request.
fn refused(request: &str) -> String {
    let refused = searched(|search| search.add(&request.parse().unwrap()));
    refused.unwrap_err().to_string()
}

/// Makes an argument of a probe.
fn argument(index: usize, name: &str, is_signed: bool) -> Argument {
    Argument {
        index,
        name: name.to_owned(),
        is_signed,
    }
}

#[test]
fn arguments_that_all_places_have_are_recorded() {
    let [probe] = &found("app:request")[..] else {
        panic!("one probe");
    };
    let arguments = vec![
        argument(0, "request.arg1", true),
        argument(1, "request.arg2", true),
    ];
    assert_eq!(probe.meaning, Meaning::Values(arguments));
    assert_eq!((probe.places, probe.read_len(), probe.width()), (2, 2, 2));
    let [probe] = &found("app:request:,bytes")[..] else {
        panic!("one probe");
    };
    let arguments = vec![argument(1, "request.bytes", true)];
    assert_eq!(probe.meaning, Meaning::Values(arguments));
    assert_eq!((probe.read_len(), probe.width()), (2, 1));
    let [probe] = &found("lib:lock:address")[..] else {
        panic!("one probe");
    };
    assert_eq!(probe.path, Path::new("/a/lib.so"));
    let arguments = vec![argument(0, "lock.address", false)];
    assert_eq!(probe.meaning, Meaning::Values(arguments));
}

#[test]
fn markers_are_known_by_their_first_argument() {
    let meanings: Vec<_> = found("whylat:*")
        .into_iter()
        .map(|probe| (probe.name.clone(), probe.meaning))
        .collect();
    assert_eq!(meanings[1], ("queue".to_owned(), Meaning::Marker));
    assert!(matches!(meanings[0].1, Meaning::Values(_)), "{meanings:?}");
    assert_eq!(found("app:begun")[0].meaning, Meaning::Moment);
    assert!(refused("whylat:queue:length").contains("has no arguments to name"));
}

#[test]
fn missing_probe_error_lists_probes() {
    let error = refused("app:reqest");
    let expected = "no USDT probe app:reqest in /a/program, which runs the script /a/script, or the \
                    library loaded with it (not searched: process 7: gone)\n\
                    hint: there are app:begun, app:request, lib:lock, whylat:odd, whylat:queue";
    assert_eq!(error, expected);
    let error = refused("app:request:a,b,c");
    assert!(
        error.contains("has 2 arguments (-4@%ebx -8@$2 | 4@%eax -8@$1 8@(%rsp))"),
        "{error}"
    );
    let error = refused("/none:app:request");
    assert!(
        error.contains("cannot read USDT probes of /none: No such file"),
        "{error}"
    );
    let nowhere = find(&["app:request".parse().unwrap()], &Files::default());
    let error = nowhere.unwrap_err().to_string();
    assert!(
        error.contains("hint: name the file: -u /path/of/program:app:request"),
        "{error}"
    );
}

#[test]
fn file_without_probes_is_reported() {
    let own = std::env::current_exe().unwrap();
    let request = format!("{}:app:request", own.display());
    let error = find(&[request.parse().unwrap()], &Files::default()).unwrap_err();
    assert!(
        error.to_string().contains("no USDT probe is there at all"),
        "{error}"
    );
}
