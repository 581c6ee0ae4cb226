//! A canary's question never changes what another caller is answered: many clients ask in turn, on connections that stay, with all
//! that today's updaters and ours send.

use serde_json::Value;

use crate::reports::host::{Host, epoch};
use crate::support::{client::Client, groups, start, version};

/// Hosts that the group has.
const HOSTS: u8 = 8;
/// Clients that ask at the same time.
const CLIENTS: usize = 6;
/// Questions of each.
const QUESTIONS: usize = 1_000;

fn update_id(number: u8) -> String {
    format!("50000000-0000-4000-8000-{number:012}")
}

/// A question, and whether it may be answered "update".
struct Asked {
    path: String,
    updates: bool,
}

#[test]
fn thousands_of_interleaved_questions_are_each_answered_for_who_asks() {
    let (_dir, server) = start();
    let policy = groups(&["dev", "prod"]).replace("name: dev,", "name: dev, canary_count: 2,");
    server.create(&format!("{policy}---\n{}", version("1.0.0", "1.1.0", "regular")));
    let epoch = epoch(&server);
    for number in 1..=HOSTS {
        let host = Host::new(number, "dev");
        let mut says = host.says(epoch, "1.0.0", None);
        says["update_id"] = update_id(number).into();
        assert_eq!(host.sends(server.addr, &says).0, 200);
    }
    let host = |number: u8| Host::new(number, "dev").id;
    server.agents(&["start-update", "dev"]);
    let canaries = || -> Vec<Value> { server.group("dev")["canaries"].as_array().cloned().unwrap_or_default() };
    server.until("both canaries are chosen", || canaries().len() == 2);
    let chosen: Vec<String> = canaries().iter().map(|canary| canary["host_id"].as_str().unwrap().to_owned()).collect();
    let asked: Vec<Asked> = (1..=HOSTS)
        .flat_map(|number| {
            let is_canary = chosen.contains(&host(number));
            let (host, id) = (host(number), update_id(number));
            let of = |query: String, updates: bool| {
                ["/v1/webapi/find", "/webapi/find", "/webapi/ping"]
                    .map(|path| Asked { path: format!("{path}?{query}"), updates })
            };
            [
                of(format!("host={host}&group=dev&update_id={id}"), is_canary),
                // As today's updaters ask.
                of(format!("group=dev&update_id={id}"), is_canary),
                // A stranger, a host of the group after it, and one that says nothing.
                of("group=dev&update_id=60000000-0000-4000-8000-000000000001".to_owned(), false),
                of(format!("host=70000000-0000-4000-8000-{number:012}&group=prod"), false),
                of(String::new(), false),
            ]
        })
        .flatten()
        .collect();
    let wrong = |first: usize| {
        let mut client = Client::new(server.addr);
        // Each client takes another way through the list.
        let of = |turn: usize| &asked[(first * 7 + turn * (2 * first + 1)) % asked.len()];
        let answers = (0..QUESTIONS).map(|turn| (of(turn), updates(&client.get(&of(turn).path))));
        let wrong = answers.filter(|(asked, told)| asked.updates != *told).map(|(asked, _)| asked.path.clone());
        wrong.collect::<Vec<String>>()
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS).map(|first| scope.spawn(move || wrong(first))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {}: {:?}", wrong.len(), CLIENTS * QUESTIONS, &wrong[..wrong.len().min(5)]);
    assert!(asked.iter().filter(|asked| asked.updates).count() > 4, "canaries were asked for");
}

/// Whether an answer says that the agent is to update now, in whichever dialect.
fn updates(answer: &str) -> bool {
    let answer: Value = serde_json::from_str(answer).unwrap();
    let told = answer.get("agent_auto_update").or_else(|| answer.pointer("/auto_update/agent_auto_update"));
    told.and_then(Value::as_bool).unwrap()
}
