//! Containers without systemd, built by the lines of the shipped Dockerfile and run by its entry point, in name spaces of
//! their own; and hosts whose file systems are cut in other ways than usual.

use crate::support::*;

cases_of! { "images/image_containers.txt":
    a_sealed_usr_whose_usr_local_is_a_link_into_var_needs_nothing_special;
    a_wholly_sealed_usr_is_refused_with_the_way_out_and_path_is_that_way;
    the_data_on_a_disk_of_its_own_is_waited_for_and_never_written_beside;
}

// --- a container engine of three verbs: build, run, exec ---

/// Enters a fresh mount, process and host name space below an overlay of `$LOWER` (and `$UPPER`, `$WORK`), with `$VOLUME`,
/// if any, at /var/lib/teleport. The arguments run as PID 1.
const ENTER: &str = r#"
set -eu
mount -t tmpfs tmpfs "$MNT"
mkdir "$MNT/root"
mount -t overlay -o "lowerdir=$LOWER,upperdir=$UPPER,workdir=$WORK" overlay "$MNT/root"
cd "$MNT/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
cat /etc/resolv.conf >etc/resolv.conf || true
echo '127.0.0.1 localhost' >etc/hosts
hostname "$NAME"
if [ -n "$VOLUME" ]; then mount --bind "$VOLUME" var/lib/teleport; fi
mkdir -p old
pivot_root . old
umount -l old
rmdir old
exec env -i "$@"
"#;

/// An image: layers, and what its Dockerfile says of running it.
struct Built {
    dir: tempfile::TempDir,
    cluster: Cluster,
    base: PathBuf,
    environment: Vec<String>,
    entry_point: Vec<String>,
    volume: String,
}

impl Built {
    /// Builds the shipped Dockerfile; `None`, saying why, where this machine cannot.
    fn from_the_dockerfile(version: &str) -> Option<Self> {
        let can = Command::new(checkout("tests/beds/bed.sh")).arg("can").output().unwrap();
        if !can.status.success() {
            eprintln!("skipped: {}", String::from_utf8_lossy(&can.stdout));
            return None;
        }
        let deb = deb("1.0.0")?;
        let root = Command::new(checkout("tests/beds/root.sh")).output().unwrap();
        let base = PathBuf::from(String::from_utf8(root.stdout).unwrap().trim());
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(&dir.path().join("cluster"));
        cluster.publish(&Archive::simple(version));
        cluster.set_directive(Find::version(version));
        let mut built =
            Self { dir, cluster, base, environment: Vec::new(), entry_point: Vec::new(), volume: String::new() };
        // The test's authority in the base image stands for a public one.
        let bundle = "etc/ssl/certs/ca-certificates.crt";
        let roots = std::fs::read_to_string(built.base.join(bundle)).unwrap() + built.cluster.ca_pem();
        std::fs::create_dir_all(built.layer().join("etc/ssl/certs")).unwrap();
        std::fs::write(built.layer().join(bundle), roots).unwrap();
        built.carry_out(&deb);
        Some(built)
    }

    fn layer(&self) -> PathBuf {
        self.dir.path().join("layer")
    }

    /// Each line of the Dockerfile, as an engine would take it.
    fn carry_out(&mut self, deb: &Path) {
        let context = checkout("packaging/examples/docker");
        let text = std::fs::read_to_string(context.join("Dockerfile")).unwrap();
        let mut environment = vec![
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            "DEBIAN_FRONTEND=noninteractive".to_owned(),
        ];
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (verb, rest) = line.split_once(' ').unwrap();
            match verb {
                "FROM" => assert!(rest.starts_with("debian:bookworm"), "the bed's root is another"),
                "ARG" => {
                    // --build-arg
                    let (name, _) = rest.split_once('=').unwrap();
                    environment.push(match name {
                        "TELEPORT_PROXY" => format!("{name}={}", self.cluster.addr()),
                        "TELEPORT_CDN_BASE_URL" => format!("{name}={}", self.cluster.base_url()),
                        other => panic!("a new argument: {other}"),
                    });
                }
                "COPY" => {
                    let mut words: Vec<&str> = rest.split_whitespace().collect();
                    let to = self.layer().join(words.pop().unwrap().trim_start_matches('/'));
                    std::fs::create_dir_all(&to).unwrap();
                    for name in words {
                        let from = if name.ends_with(".deb") { deb.to_owned() } else { context.join(name) };
                        std::fs::copy(from, to.join(name)).unwrap();
                    }
                }
                "RUN" => {
                    let words: Vec<&str> = environment.iter().map(String::as_str).collect();
                    let output =
                        self.enter("build", &self.base, &self.layer(), None, &words, &["sh", "-c", rest]).output();
                    Ran::of(&output.unwrap()).ok();
                }
                "ENV" => self.environment.push(rest.to_owned()),
                "VOLUME" => self.volume = rest.trim_start_matches('/').to_owned(),
                "ENTRYPOINT" => self.entry_point = serde_json::from_str(rest).unwrap(),
                other => panic!("a new verb: {other}"),
            }
        }
    }

    fn enter(
        &self,
        name: &str,
        lower: &Path,
        upper: &Path,
        volume: Option<&Path>,
        env: &[&str],
        words: &[&str],
    ) -> Command {
        let dirs = ["work", "mnt"].map(|kind| self.dir.path().join(format!("{kind}-{name}")));
        dirs.iter().for_each(|dir| std::fs::create_dir_all(dir).unwrap());
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--uts", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"])
            .args(env)
            .args(words);
        command.env("LOWER", lower).env("UPPER", upper).env("WORK", &dirs[0]).env("MNT", &dirs[1]).env("NAME", name);
        command.env("VOLUME", volume.map_or(Path::new(""), |path| path)).stdin(Stdio::null());
        command
    }

    /// A new volume, with what the image has at its place: an engine's named volume.
    fn volume(&self, name: &str) -> PathBuf {
        let to = self.dir.path().join(format!("volume-{name}"));
        let from = self.layer().join(&self.volume);
        assert!(Command::new("cp").arg("-a").arg(from).arg(&to).status().unwrap().success());
        // Time is short in tests.
        let file = to.join("versions/updates.yaml");
        let text = std::fs::read_to_string(&file).unwrap().replace("\nspec:\n", &format!("\nspec:\n{FAST}"));
        std::fs::write(&file, text).unwrap();
        to
    }

    /// A container of the image.
    fn run(&self, name: &str, volume: &Path) -> Container {
        let upper = self.dir.path().join(format!("upper-{name}"));
        std::fs::create_dir_all(upper.join("etc")).unwrap();
        std::fs::write(upper.join("etc/teleport.yaml"), "teleport:\n  data_dir: /var/lib/teleport\n").unwrap();
        let lower = format!("{}:{}", self.layer().display(), self.base.display());
        let mut environment: Vec<&str> = self.environment.iter().map(String::as_str).collect();
        environment.push("TELEPORT_UPDATE_INTERVAL=2");
        let words: Vec<&str> = self.entry_point.iter().map(String::as_str).collect();
        let log = self.dir.path().join(format!("log-{name}"));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = self.enter(name, Path::new(&lower), &upper, Some(volume), &environment, &words);
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Container { child, volume: volume.to_owned(), log }
    }
}

struct Container {
    child: Child,
    volume: PathBuf,
    log: PathBuf,
}

impl Container {
    /// PID 1, as the host numbers it.
    fn init(&self) -> Option<u32> {
        let id = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    fn exec(&self, words: &[&str]) -> Output {
        let Some(init) = self.init() else { panic!("the container has ended: {}", self.log()) };
        let mut command = Command::new("nsenter");
        command.args(["-t", &init.to_string(), "-m", "-p", "-u", "-r", "-w", "env", "-i"]);
        command.args(["PATH=/var/lib/teleport/bin:/usr/sbin:/usr/bin:/sbin:/bin"]).args(words).output().unwrap()
    }

    /// The version whose binary the agent's process runs.
    fn running(&self) -> Option<String> {
        self.init()?;
        let output = self.exec(&["sh", "-c", "readlink /proc/$(cat /run/teleport.pid)/exe"]);
        let path = String::from_utf8(output.stdout).unwrap();
        Some(path.strip_prefix(VERSIONS)?.split('/').nth(1)?.to_owned())
    }

    /// How many processes of any version of the agent there are.
    fn agents(&self) -> usize {
        let output = self.exec(&["sh", "-c", "for each in /proc/[0-9]*; do readlink $each/exe; done"]);
        String::from_utf8(output.stdout).unwrap().lines().filter(|line| line.ends_with("/bin/teleport")).count()
    }

    fn until_running(&self, version: &str) {
        let end = Instant::now() + SOON + SOON;
        while self.running().as_deref() != Some(version) {
            assert!(Instant::now() < end, "{version} does not run: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn until(&self, what: &str, condition: impl Fn() -> bool) {
        let end = Instant::now() + SOON;
        while !condition() {
            assert!(Instant::now() < end, "not in time: {what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn update_id(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.volume.join("versions/updates.yaml")).unwrap();
        text.lines().find_map(|line| line.trim().strip_prefix("update_id: ").map(str::to_owned))
    }

    /// `docker stop`: the exit status.
    fn stop(mut self) -> Option<i32> {
        let init = rustix::process::Pid::from_raw(self.init().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(init, rustix::process::Signal::TERM).unwrap();
        let end = Instant::now() + SOON;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "it does not stop: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // --kill-child takes PID 1 along, and with it everything in the container and its mounts.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn containers_of_the_dockerfile_follow_the_cluster_each_as_itself() {
    let Some(built) = Built::from_the_dockerfile("1.0.0") else { return };
    let image = std::fs::read_to_string(built.layer().join("var/lib/teleport/versions/updates.yaml")).unwrap();
    assert!(image.contains("active_version: 1.0.0") && !image.contains("update_id"), "{image}");
    let volumes = ["one", "two"].map(|name| built.volume(name));
    let containers = [built.run("one", &volumes[0]), built.run("two", &volumes[1])];
    for container in &containers {
        container.until_running("1.0.0");
        container.until("an id", || container.update_id().is_some());
    }
    assert_ne!(containers[0].update_id(), containers[1].update_id());
    built.cluster.publish(&Archive::simple("1.1.0"));
    built.cluster.set_directive(Find::version("1.1.0"));
    for container in &containers {
        container.until_running("1.1.0");
        container.until("the commit", || !container.volume.join("versions/.journal").exists());
        let status = Ran::of(&container.exec(&["teleport-update", "status", "--format", "json"])).ok().json();
        assert_eq!(status["agent_version_linked"], "1.1.0");
        Ran::of(&container.exec(&["teleport-update", "verify"])).ok();
    }
    // A release that does not live is rolled back, and the container goes on.
    built.cluster.publish(&Archive::simple("1.2.0").behaviour("exit-at-once"));
    built.cluster.set_directive(Find::version("1.2.0"));
    for container in &containers {
        container.until("refused", || container.log().contains("rolled back to 1.1.0"));
        container.until_running("1.1.0");
        container.until("its end", || !container.volume.join("versions/.journal").exists());
    }
    built.cluster.set_directive(Find::version("1.1.0"));
    // A new container of the old image with the old volume is the same host.
    let [one, two] = containers;
    let id = one.update_id();
    assert_eq!(one.stop(), Some(0));
    let again = built.run("again", &volumes[0]);
    again.until_running("1.1.0");
    again.until("a run", || again.log().contains("nothing to do"));
    assert_eq!(again.update_id(), id);
    assert!(!again.log().contains("clone"), "{}", again.log());
    // Without its agent a container ends, for its engine to start it again.
    two.exec(&["sh", "-c", "kill -9 $(cat /run/teleport.pid)"]);
    let mut two = two;
    two.until("its end", || !Path::new(&format!("/proc/{}/task", two.child.id())).exists() || two.init().is_none());
    assert_eq!(two.child.wait().unwrap().code(), Some(1), "{}", two.log());
}

#[test]
fn a_container_with_an_empty_volume_installs_at_its_start_and_one_that_was_killed_recovers() {
    let Some(built) = Built::from_the_dockerfile("1.0.0") else { return };
    let volume = built.dir.path().join("empty");
    std::fs::create_dir_all(volume.join("versions")).unwrap();
    let settings = checkout("packaging/examples/docker/updates.yaml");
    let text = std::fs::read_to_string(settings).unwrap();
    let ours = format!("\nspec:\n{FAST}  proxy: {}\n  base_url: {}\n", built.cluster.addr(), built.cluster.base_url());
    std::fs::write(volume.join("versions/updates.yaml"), text.replace("\nspec:\n", &ours)).unwrap();
    let container = built.run("empty", &volume);
    container.until_running("1.0.0");
    // Killed while a run is under way: the release is slow to come up.
    built.cluster.publish(&Archive::simple("1.1.0").behaviour("slow-start"));
    built.cluster.set_directive(Find::version("1.1.0"));
    container.until("a journal", || {
        std::fs::read(volume.join("versions/.journal"))
            .is_ok_and(|text| text.windows(7).any(|word| word == b"intent\""))
    });
    drop(container);
    assert!(volume.join("versions/.journal").exists());
    let again = built.run("after", &volume);
    again.until_running("1.1.0");
    again.until("a tidy end", || !volume.join("versions/.journal").exists());
    assert_eq!(again.agents(), 1, "{}", again.log());
    // Killed when the new agent has been started already, and its health is being looked at.
    built.cluster.publish(&Archive::simple("1.2.0").behaviour("slow-start"));
    built.cluster.set_directive(Find::version("1.2.0"));
    again.until("the new agent", || again.running().as_deref() == Some("1.2.0"));
    assert!(volume.join("versions/.journal").exists());
    drop(again);
    let last = built.run("last", &volume);
    last.until_running("1.2.0");
    last.until("a tidy end", || !volume.join("versions/.journal").exists());
    assert_eq!(last.agents(), 1, "{}", last.log());
}
