#!/bin/bash
# demo-kube.sh UPDATER FLEET BED   an agent in Kubernetes, with the real programs and a real API server; ends with 0 only if everything
#                                  went as it says.
#
# A StatefulSet follows a rollout; a bad image comes back by itself; a halt at the rollout server reaches the agent.
#
# UPDATER, FLEET, BED: the programs teleport-kube-update, teleport-fleet, demo-kube (namespace, agent and registry).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=demo/say.sh
. "$here/demo/say.sh"
# The rollout server, and how it is steered.
# shellcheck source=demo/fleet.sh
. "$here/demo/fleet.sh"

take_down() {
    trap '' INT TERM HUP
    stop_program
    stop_server
    # The namespace goes with the last who holds the other end.
    [ -z "${bed_pid:-}" ] || { exec 7>&- && wait "$bed_pid"; } 2>/dev/null || true
    [ -z "${work:-}" ] || rm -rf "$work"
}

# Sets registry.
start_bed() {
    local key value ready=
    mkfifo "$work/end"
    : >"$work/bed"
    "$bed" "$work" <"$work/end" >"$work/bed" 2>"$work/bed.log" &
    bed_pid=$!
    exec 7>"$work/end"
    until [ -n "$ready" ]; do
        while IFS='=' read -r key value; do
            case $key in registry) registry=$value ;; ready) ready=$value ;; esac
        done <"$work/bed"
        kill -0 "$bed_pid" 2>/dev/null || break
        sleep 0.2
    done
    if [ -z "$ready" ]; then
        cat "$work/bed.log"
        # Where there is no API server it says so, and that is no failure.
        if grep -q '^skipped' "$work/bed.log"; then exit 0; fi
        fail "the cluster did not start"
    fi
}

# A pod starts the program so; here it stands beside the cluster. It asks its source as it starts, then every five minutes.
start_program() {
    typed "teleport-kube-update run &"
    SSL_CERT_FILE=$work/fleet/ca.pem "$updater" run --listen 127.0.0.1:0 --config "$work/kube.yaml" \
        --kubeconfig "$work/kubeconfig" 2>>"$work/program.log" &
    program_pid=$!
}

stop_program() {
    [ -z "${program_pid:-}" ] || { kill "$program_pid" && wait "$program_pid"; } 2>/dev/null || true
    program_pid=
}

restart_program() {
    note "The updater asks every five minutes, and when it starts. So that we need not wait so long, it is started again."
    stop_program
    start_program
}

program() {
    SSL_CERT_FILE=$work/fleet/ca.pem "$updater" "$@" --config "$work/kube.yaml" --kubeconfig "$work/kubeconfig"
}

shows() { typed "teleport-kube-update $*" && program "$@"; }

# field NAME: of the agent, as status --format json has it.
field() {
    program status --format json 2>/dev/null | python3 -c '
import json, sys
agent = json.load(sys.stdin)["agents"][0]
print(agent[sys.argv[1]] if sys.argv[1] != "pods" else
      " ".join(sorted("%s:%s" % (pod["version"], "ready" if pod["ready"] else "not") for pod in agent["pods"])))' "$1" || true
}

# becomes NAME WANTED SENTENCE: waits until a field is so.
becomes() {
    local found='' end=$((SECONDS + 90))
    while ((SECONDS < end)); do
        found=$(field "$1")
        # shellcheck disable=SC2053 # a pattern
        [[ $found != $2 ]] || { good "$3"; return; }
        sleep 0.5
    done
    program status || true
    tail -n 5 "$work/program.log"
    fail "expected: $3; found: $1 is $found"
}

# plans ACTION CODE SENTENCE: waits until `plan` says so, and shows it.
plans() {
    local end=$((SECONDS + 30))
    until program plan >"$work/plan" 2>&1 && grep -q ": $1\$" "$work/plan" && grep -qw "$2" "$work/plan"; do
        ((SECONDS < end)) || { cat "$work/plan"; fail "expected: $3"; }
        sleep 0.5
    done
    typed "teleport-kube-update plan"
    cat "$work/plan"
    good "$3"
}

target_is() {
    target "$1" "$2" >"$work/fleet/version.yaml"
    quietly update -f version.yaml
}

main() {
    [ $# = 3 ] || { sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
    updater=$(realpath "$1") fleet=$(realpath "$2") bed=$(realpath "$3")
    trap take_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    work=$(mktemp -d)
    tell "A Kubernetes API server, a namespace with our manifests, and an agent: a StatefulSet with two pods of 17.1.0."
    start_bed
    certificates
    server
    story
    if grep -qE '"(api_denied|state_invalid)"' "$work/program.log"; then fail "the Role of the manifests was not enough"; fi
    good "the Role of our manifests was enough for all of it"
    tell "Done: a rollout was followed, a bad image came back by itself, a halt was obeyed."
    note "Every line marked ✓ was checked. Next: docs/kubernetes.md."
}

story() {
    cat >"$work/kube.yaml" <<END
version: v1
kind: kube_update
spec:
  source: https://$fleet_addr
  registry: {insecure: ["$registry"]}
  agents:
  - {name: teleport-agent, group: dev, watch: 2s, progress_deadline: 20s}
END
    typed "cat kube.yaml"
    cat "$work/kube.yaml"

    tell "1. A rollout from 17.1.0 to 17.2.0. The group dev has not begun."
    { policy | grep -v 'name: staging\|name: prod' && echo --- && target 17.1.0 17.2.0; } >"$work/fleet/policy.yaml"
    quietly create -f policy.yaml
    start_program
    note "The updater asks its source when it starts."
    becomes code not_let_go "17.2.0 waits, as its group has not begun"
    shows status

    tell "2. The operator starts dev. The agent follows, one pod after the other."
    quietly autoupdate agents start-update dev
    restart_program
    becomes pods "17.2.0:ready 17.2.0:ready" "both pods run 17.2.0"
    becomes code "up_to_date" "the pods were watched, and stayed ready"
    state_is dev 'done'
    steers 0 hosts

    tell "3. A bad image: 17.3.0 crashes as soon as it runs."
    target_is 17.2.0 17.3.0
    quietly autoupdate agents start-update dev
    restart_program
    becomes pods "*17.3.0:not*" "a pod of 17.3.0 crashes; the other one still runs 17.2.0"
    becomes pods "17.2.0:ready 17.2.0:ready" "both pods run 17.2.0 again, and no hand was needed"
    note "Kubernetes alone would stay there: a pod that is never ready blocks its own replacement. The updater deleted that one pod."
    becomes code refused "17.3.0 is refused here until its next try"
    shows status
    state_is dev halted
    steers 0 hosts --failed

    tell "4. 17.4.0 repairs it. But before the agent asks, the operator halts everything."
    target_is 17.2.0 17.4.0
    quietly autoupdate agents start-update dev
    quietly autoupdate agents halt --all
    restart_program
    becomes wanted 17.2.0 "the agent has asked, and the server names what it runs"
    becomes pods "17.2.0:ready 17.2.0:ready" "no pod was touched"
    note "Why? Asked at the server:"
    steers 0 explain --host "$(field update_id)"

    tell "5. The halt ends."
    quietly autoupdate agents run --all
    plans update let_go "with its next question the agent goes to 17.4.0"
}

main "$@"
