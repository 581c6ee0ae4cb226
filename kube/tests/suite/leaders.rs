//! Two updaters that both believe to lead: nothing is written twice (KUBE §9, §11).

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use kube_bed::{ApiCall, ApiFault, ApiProxy, KubeBed, PatchKind, PodLife};
use serde_json::{Value, json};
use teleport_kube_update::api::Api;
use teleport_kube_update::cli::{CommonArgs, KubeArgs};
use teleport_kube_update::config::KubeConfig;
use teleport_kube_update::keeper::Keeper;
use teleport_kube_update::run::shared;
use teleport_kube_update::state::KeptState;
use teleport_kube_update::tell::{SharedNumbers, numbers};
use testing::crash::Random;

use crate::faults::{each, variable};
use crate::model::{ModelServer, is_ready};
use crate::scene::{NAME, Scene};

/// Longest that an interleaving takes.
const LONGEST: Duration = Duration::from_secs(12);
/// Longest that a pair of processes takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks of an updater: seconds in a pod.
const LOOK: Duration = Duration::from_millis(2);
/// Interleavings of `make test-kube`, and of `make kube-faults`.
const SLICE: u64 = 60;
const WHOLE: u64 = 1000;

const OLD: &str = "registry.example/teleport:1.0.0";
const NEW: &str = "registry.example/teleport:2.0.0";

/// One of the two, with all that a process has of its own but the Lease.
async fn keeper(folder: &Path, number: usize, url: &str) -> Keeper {
    let kubeconfig = folder.join(format!("kubeconfig-{number}"));
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "c", "user": {"token": "t"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "here"}}],
    });
    std::fs::write(&kubeconfig, text.to_string()).unwrap();
    let file = folder.join("kube.yaml");
    let agent = json!({"name": "agent", "watch": "10ms", "progress_deadline": "5s", "unhealthy_after": "60s", "resolve": false});
    let source = format!("file://{}", folder.join("release.yaml").display());
    let spec = json!({"source": source, "verify": "none", "agents": [agent]});
    let config = json!({"version": "v1", "kind": "kube_update", "spec": spec});
    std::fs::write(folder.join("release.yaml"), "version: 2.0.0\n").unwrap();
    let global: CommonArgs = KubeArgs::parse_from(["teleport-kube-update", "version"]).global;
    let api = Api::new(kubeconfig.to_str(), None, &global.name).await.unwrap();
    let config = KubeConfig::parse(&file, config.to_string().as_bytes()).unwrap();
    let told = SharedNumbers::default();
    numbers(&told).is_leader = true;
    let shared = shared(&api, &global, &config, &format!("leader-{number}"), &told).unwrap();
    Keeper::new(shared, config.agents[0].clone()).unwrap()
}

/// What was wrong with the interleaving of a seed.
fn interleave(seed: u64) -> Vec<String> {
    let is_bad = seed % 2 == 1;
    let folder = tempfile::tempdir().unwrap();
    let model = ModelServer::new(seed, OLD, is_bad.then_some("2.0.0"));
    let urls = [model.listen(0), model.listen(1)];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let has_ended = runtime.block_on(async {
        let mut first = keeper(folder.path(), 0, &urls[0]).await;
        let mut second = keeper(folder.path(), 1, &urls[1]).await;
        let begun = Instant::now();
        tokio::join!(look(&mut first, &model, is_bad, begun), look(&mut second, &model, is_bad, begun))
    });
    runtime.shutdown_background();
    model.end();
    let objects = model.objects.lock().unwrap();
    let written: Vec<&str> = objects.written.iter().map(|(_, image)| image.as_str()).collect();
    let mut wrong = Vec::new();
    if has_ended != (true, true) {
        wrong.push(format!("it does not end: {}, {}", objects.image(), objects.state().unwrap_or_default()));
    }
    if written != if is_bad { &[NEW, OLD][..] } else { &[NEW] } {
        wrong.push(format!("written: {:?}", objects.written));
    }
    if objects.deleted.contains(&true) {
        wrong.push("a ready pod is deleted".to_owned());
    }
    let state = KeptState::parse(objects.state()).unwrap();
    if is_bad && state.refused.first().is_none_or(|refusal| refusal.count != 1) {
        wrong.push(format!("refused: {:?}", state.refused));
    }
    for wrong in &wrong {
        eprintln!("seed {seed}: {wrong}");
    }
    wrong.into_iter().map(|wrong| format!("seed {seed}: {wrong}")).collect()
}

/// Looks until all is as it should be, and some looks more: what comes late is seen.
async fn look(keeper: &mut Keeper, model: &Arc<ModelServer>, is_bad: bool, begun: Instant) -> bool {
    let mut after = 0;
    while begun.elapsed() < LONGEST && after < 6 {
        keeper.look().await;
        tokio::time::sleep(LOOK).await;
        after = if is_over(model, is_bad) { after + 1 } else { 0 };
    }
    after > 0
}

fn is_over(model: &ModelServer, is_bad: bool) -> bool {
    let objects = model.objects.lock().unwrap();
    let state = KeptState::parse(objects.state()).unwrap();
    let end = if is_bad { "rolled_back" } else { "updated" };
    let has_pods = objects.pods.len() == 2 && objects.pods.iter().all(is_ready);
    let is_told = state.last.as_ref().is_some_and(|last| last.outcome.name() == end);
    has_pods && state.attempt.is_none() && is_told && objects.image() == if is_bad { OLD } else { NEW }
}

fn interleavings(count: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = variable("KUBE_FAULTS_SEED").map_or(now.subsec_nanos().into(), |seed| seed.parse().unwrap());
    println!("KUBE_FAULTS_SEED={first}");
    let seeds: Vec<u64> = (first..first + count).collect();
    let wrong: Vec<_> = each(&seeds, |seed| interleave(*seed)).into_iter().flatten().collect();
    println!("{count} interleavings of two leaders, {} with something wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn two_leaders_write_nothing_twice() {
    interleavings(SLICE);
}

#[test]
#[ignore = "minutes: make kube-faults"]
fn two_leaders_write_nothing_twice_in_a_thousand_interleavings() {
    interleavings(WHOLE);
}

/// Pairs of processes before a real API server, in `make test-kube` and in `make kube-faults`.
const PAIRS: u64 = 4;
const ALL_PAIRS: u64 = 48;
/// Calls of each process that come late, and how late they come at most, milliseconds.
const LATE_CALLS: usize = 12;
const LATEST: usize = 5000;

/// Each of two processes sees a Lease of its own, and some of its calls come late. Gives what was wrong.
fn pair(bed: &KubeBed, seed: u64) -> Vec<String> {
    let is_bad = seed % 2 == 1;
    let mut random = Random::new(seed);
    let mut scene = Scene::new(bed, "pair", &["agent"]);
    scene.lease_too("second");
    let second = ApiProxy::start(bed);
    second.rename(&format!("/leases/{NAME}"), "/leases/second");
    for proxy in [&scene.proxy, &second] {
        for _ in 0..LATE_CALLS {
            let (number, delay) = (1 + random.below(60), Duration::from_millis(random.below(LATEST) as u64));
            proxy.at(number, ApiFault::Delay(delay));
        }
    }
    scene.deploy("agent");
    if is_bad {
        scene.live("2.0.0", PodLife::Unready);
    }
    scene.want("2.0.0", "");
    scene.start();
    scene.start_by(&second);
    let end = if is_bad { ("rolled_back", "1.0.0") } else { ("updated", "2.0.0") };
    kube_bed::wait_until(PATIENCE, &format!("seed {seed} ends; {}", scene.log()), || {
        let state = scene.state("agent");
        state["attempt"].is_null() && state["last"]["outcome"] == end.0
    });
    scene.settled("agent", end.1);
    // What is late still comes.
    std::thread::sleep(Duration::from_millis(LATEST as u64));
    let calls: Vec<_> = scene.proxy.calls().into_iter().chain(second.calls()).collect();
    let of = |version: &str| calls.iter().filter(|call| is_write_of(call, version)).count();
    let mut wrong = Vec::new();
    if (of("2.0.0"), of("1.0.0")) != (1, usize::from(is_bad)) {
        wrong.push(format!("seed {seed}: 2.0.0 is written {} times, 1.0.0 {} times", of("2.0.0"), of("1.0.0")));
    }
    if !scene.present("agent").starts_with(&scene.image(end.1)) {
        wrong.push(format!("seed {seed}: it ends on {}", scene.present("agent")));
    }
    let leads =
        |call: &&ApiCall| call.method == "PATCH" && call.path.contains("/leases/") && call.answered == Some(200);
    if [scene.proxy.calls(), second.calls()].iter().any(|calls| !calls.iter().any(|call| leads(&call))) {
        wrong.push(format!("seed {seed}: one did not lead"));
    }
    wrong
}

/// A patch that the API server has done.
fn is_write_of(call: &ApiCall, version: &str) -> bool {
    let steps: Value = serde_json::from_str(&call.body).unwrap_or_default();
    let image = steps.as_array().and_then(|steps| steps.iter().find(|step| step["op"] == "replace")?["value"].as_str());
    let has_version = image.is_some_and(|image| image.split('@').next().unwrap().ends_with(version));
    call.answered == Some(200) && call.path.contains("/statefulsets/") && has_version
}

fn pairs(count: u64) {
    let Some(bed) = KubeBed::shared() else { return };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let first = variable("KUBE_FAULTS_SEED").map_or(now.subsec_nanos().into(), |seed| seed.parse().unwrap());
    println!("KUBE_FAULTS_SEED={first}");
    let seeds: Vec<u64> = (first..first + count).collect();
    let wrong: Vec<_> = each(&seeds, |seed| pair(bed, *seed)).into_iter().flatten().collect();
    println!("{count} pairs of processes that both lead, {} with something wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn two_processes_that_both_lead_write_nothing_twice() {
    pairs(PAIRS);
}

#[test]
#[ignore = "minutes: make kube-faults"]
fn many_pairs_of_processes_that_both_lead_write_nothing_twice() {
    pairs(ALL_PAIRS);
}

#[test]
fn a_patch_that_another_leader_made_first_is_watched_all_the_same() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "same-patch", &["agent"]);
    scene.deploy("agent");
    scene.live("2.0.0", PodLife::InvalidImageName);
    scene.want("2.0.0", "");
    let is_patch = |call: &ApiCall| call.method == "PATCH" && call.path.contains("/statefulsets/");
    scene.proxy.on(is_patch, 1..2, ApiFault::Delay(Duration::from_secs(3)));
    scene.start();
    let call = kube_bed::wait_for(PATIENCE, "the patch", || scene.proxy.calls().into_iter().find(is_patch));
    let client = scene.space.client.named("teleport-kube-update", Some(NAME));
    client.patch(&scene.place("agent"), PatchKind::Json, &serde_json::from_str(&call.body).unwrap()).unwrap();
    scene.settled_after_failure("agent", "invalid_image");
    let first = scene.proxy.calls().into_iter().find(is_patch).unwrap();
    assert_eq!(first.answered, Some(422), "the other one was first");
}

#[test]
fn a_leader_whose_lease_answers_slowly_steps_back_before_another_may_lead() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "slow-lease", &["agent"]);
    scene.start();
    let has_said = |scene: &Scene, what: &str| scene.log().contains(what);
    kube_bed::wait_until(PATIENCE, "it leads", || has_said(&scene, "this process has the lease"));
    // Two calls in a row are longer than the Lease, and none of them fails.
    scene.proxy.on(|call| call.path.contains("/leases/"), 1..usize::MAX, ApiFault::Delay(Duration::from_secs(9)));
    kube_bed::wait_until(Duration::from_secs(15), "it steps back", || has_said(&scene, "this process lost the lease"));
}
