//! Whose reports are believed, and who waits.

use protocol::report::Report;

use super::*;

const EPOCH: u64 = 7;

fn members(mode: Enrolment) -> Members {
    let mut members = Members::new(mode);
    members.set(EnrolledKeys::default(), Vec::new(), Vec::new(), EPOCH);
    members
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn now(second: i64) -> Now {
    Now { time: at(second), up: second }
}

fn shown(host: HostId, key: u8, sequence: u64) -> ReportBody {
    let report = Report { epoch: EPOCH, sequence, ..Report::default() };
    ReportBody { host, key: Key([key; 32]), report, token: None }
}

fn code(judged: &Judged) -> Option<Code> {
    judged.as_ref().err().map(|NotTaken(wrong, _)| wrong.code)
}

#[test]
fn who_comes_behind_too_many_new_hosts_in_an_hour_waits_and_it_is_said_once() {
    let mut members = members(Enrolment::Open);
    for host in 1..=1000 {
        assert_eq!(members.judge(&shown(host, 1, 1), 0, now(0)), Ok(Verdict::Taken), "{host}");
    }
    for host in 1001..=1003 {
        assert_eq!(members.judge(&shown(host, 1, 1), 0, now(3599)), Ok(Verdict::Waits), "{host}");
    }
    assert_eq!(members.alerts(), [EnrolmentAlert::Surge(1000)]);
    assert_eq!(members.judge(&shown(2000, 1, 1), 0, now(3600)), Ok(Verdict::Taken), "an hour later");
    // A tenth of a large fleet.
    let mut members = self::members(Enrolment::Open);
    for host in 1..=2000 {
        assert_eq!(members.judge(&shown(host, 1, 1), 20_000, now(0)), Ok(Verdict::Taken), "{host}");
    }
    assert_eq!(members.judge(&shown(2001, 1, 1), 20_000, now(0)), Ok(Verdict::Waits));
}

#[test]
fn only_so_many_keys_wait_and_who_finds_no_room_is_told() {
    let mut members = members(Enrolment::Approve);
    let most = u128::try_from(MOST_WAITING).unwrap();
    for host in 1..=most {
        assert_eq!(members.judge(&shown(host, 1, 1), 0, now(0)), Ok(Verdict::Waits));
    }
    let refused = members.judge(&shown(most + 1, 1, 1), 0, now(0));
    assert_eq!(code(&refused), Some(Code::KeyConflict));
    members.accept(1, None, "somebody", at(1)).unwrap();
    assert_eq!(members.judge(&shown(most + 1, 1, 1), 0, now(2)), Ok(Verdict::Waits), "there is room again");
}

#[test]
fn a_question_is_its_hosts_once() {
    let mut members = members(Enrolment::Open);
    assert!(members.takes_question(1, None), "a host without a key cannot sign");
    drop(members.judge(&shown(1, 1, 10), 0, now(0)));
    let key = Key([1; 32]);
    assert!(!members.takes_question(1, None));
    assert!(!members.takes_question(1, Some((Key([2; 32]), EPOCH, 11))));
    assert!(!members.takes_question(1, Some((key, EPOCH + 1, 11))));
    assert!(!members.takes_question(1, Some((key, EPOCH, 10))), "the number of a report");
    assert!(members.takes_question(1, Some((key, EPOCH, 11))));
    assert!(!members.takes_question(1, Some((key, EPOCH, 11))), "replayed");
    assert_eq!(code(&members.judge(&shown(1, 1, 11), 0, now(60))), Some(Code::OldSequence));
}

#[test]
fn of_who_is_forgotten_nothing_is_left_to_write_and_who_comes_again_is_written_anew() {
    let mut members = members(Enrolment::Open);
    for host in 1..=3 {
        assert_eq!(members.judge(&shown(host, 1, 1), 0, now(0)), Ok(Verdict::Taken));
    }
    // A second key waits.
    drop(members.judge(&shown(1, 9, 2), 0, now(1)));
    drop(members.alerts());
    members.forget(&[1, 2]);
    assert_eq!([1, 2, 3].map(|host| members.key(host)), [None, None, Some(KeyMark::of(Key([1; 32])))]);
    assert_eq!(members.judge(&shown(2, 7, 5), 0, now(2)), Ok(Verdict::Taken));
    let changes = members.changes();
    let enrolled: Vec<_> = changes.enrolled.iter().map(|new| (new.known.host, new.known.key)).collect();
    assert_eq!(enrolled, [(3, Key([1; 32])), (2, Key([7; 32]))]);
    assert!(changes.progress.iter().all(|progress| progress.host != 1) && changes.candidates.is_empty());
}

#[test]
fn a_burst_is_followed_by_one_in_ten_seconds() {
    let mut members = members(Enrolment::Open);
    let mut number = 0;
    let mut says = |second| {
        number += 1;
        code(&members.judge(&shown(1, 1, number), 0, now(second)))
    };
    assert_eq!((0..6).map(|_| says(0)).collect::<Vec<_>>(), [None; 6]);
    assert_eq!((says(0), says(9)), (Some(Code::TooOften), Some(Code::TooOften)));
    assert_eq!((says(10), says(10)), (None, Some(Code::TooOften)));
    assert_eq!((0..7).filter_map(|_| says(1000)).count(), 1);
}

#[test]
fn how_often_a_host_or_new_ones_may_come_is_not_measured_by_a_clock_that_is_set() {
    let mut members = members(Enrolment::Open);
    // The clock is an hour ahead, and then right again: the time of the last decision stays until it is caught up with.
    for second in 0..100_i64 {
        let now = Now { time: at(3600), up: second * 10 };
        let number = u64::try_from(second).unwrap() + 1;
        assert_eq!(members.judge(&shown(1, 1, number), 0, now), Ok(Verdict::Taken), "{second}");
    }
    for host in 2..=1001 {
        drop(members.judge(&shown(host, 1, 1), 0, Now { time: at(3600), up: 1000 }));
    }
    let later = Now { time: at(3600), up: 1000 + 3600 };
    assert_eq!(members.judge(&shown(2000, 1, 1), 0, later), Ok(Verdict::Taken));
}

#[test]
fn a_refused_report_of_a_new_host_spends_no_use_of_its_token() {
    let mut members = members(Enrolment::Token);
    let token = JoinTokenRecord {
        name: "t".to_owned(),
        digest: "d".to_owned(),
        created: at(0),
        expires: Some(at(100)),
        uses: Some(1),
        fixed: None,
    };
    members.set_join("t", Some(token));
    let with = |epoch, token: &str| {
        let report = Report { epoch, sequence: 1, ..Report::default() };
        ReportBody { report, token: Some(token.to_owned()), ..shown(1, 1, 1) }
    };
    assert_eq!(code(&members.judge(&with(EPOCH + 1, "d"), 0, now(1))), Some(Code::OtherEpoch));
    assert_eq!(code(&members.judge(&with(EPOCH, "x"), 0, now(1))), Some(Code::JoinTokenRefused));
    assert_eq!(code(&members.judge(&with(EPOCH, "d"), 0, now(100))), Some(Code::JoinTokenRefused), "it has ended");
    assert_eq!(members.joins()[0].uses, Some(1));
    assert_eq!(members.judge(&with(EPOCH, "d"), 0, now(99)), Ok(Verdict::Taken));
    assert_eq!(members.joins()[0].uses, Some(0));
    let changes = members.changes();
    assert_eq!((changes.enrolled.len(), changes.joins.len()), (1, 1));
    members.kept();
    assert_eq!(members.changes(), EnrolmentChanges::default());
}
