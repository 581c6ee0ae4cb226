#!/bin/bash
# For demo.sh: the second act's story, told with what fleet.sh has.
# shellcheck disable=SC2154  # set by demo.sh and cluster.sh

rollout() {
    local dir=$work/fleet words
    tell "A fleet: a rollout server, and five hosts in the groups dev, staging and prod."
    note "Each host has the updater of the first act; it asks this server which version to run, and gets archives from the CDN."
    publish 5.0.0 5 healthy "$arch" false
    publish 6.0.0 6 healthy "$arch" false
    publish 7.0.0 7 dies-soon "$arch" false
    publish 7.0.1 7 healthy "$arch" false
    certificates
    server
    # shellcheck disable=SC2034  # of take_down
    rising=yes
    on_each host_up "${fleet_hosts[@]}"
    # shellcheck disable=SC2034
    rising=''

    tell "1. The policy: dev, then staging, then prod. From 5.0.0 to 6.0.0."
    { policy && echo --- && target 5.0.0 6.0.0; } >"$dir/policy.yaml"
    typed "cat policy.yaml"
    cat "$dir/policy.yaml"
    steers 0 create -f policy.yaml
    on_each join_fleet "${fleet_hosts[@]}"
    as dev-1
    enable_words dev-1
    typed "${words[*]}"
    tail -n 2 "$work/said/dev-1"
    note "The same on the others, each with its group."
    all_run 5.0.0 - "${fleet_hosts[@]}"

    tell "2. Nobody updates yet. Who waits for what?"
    steers 0 autoupdate agents status
    steers 0 explain --host "$(uuid prod-1)"

    tell "3. The operator starts dev before its hour, and each host's timer comes."
    steers 0 autoupdate agents start-update dev
    timer "${fleet_hosts[@]}"
    all_run 6.0.0 - dev-1
    all_run 5.0.0 - staging-1 staging-2 prod-1 prod-2
    steers 0 hosts

    tell "4. dev has reported that it is fine: staging, then prod."
    is_done dev dev-1
    rest_of_the_fleet
    all_run 6.0.0 - "${fleet_hosts[@]}"

    if [ "$mode" = image ]; then
        tell "5. A broken release, 6. its repair, 7. the way back: left out. Nothing runs in an image, so nothing can be seen to fail."
    else
        broken_release
    fi

    tell "8. Who did what?"
    quietly audit
    tail -n 12 "$dir/said"
    steers 0 audit verify
    case $mode in
    image) tell "Done: rolled out by groups, in images. Left out: a broken release, rollbacks." ;;
    *) tell "Done: rolled out by groups, stopped a broken release in the first one, repaired it, went back and forth." ;;
    esac
}

broken_release() {
    tell "5. A broken release: 7.0.0 dies as soon as it runs. Only dev is let go."
    target 6.0.0 7.0.0 >"$dir/version.yaml"
    steers 0 update -f version.yaml
    quietly autoupdate agents start-update dev
    timer "${fleet_hosts[@]}"
    all_run 6.0.0 7.0.0 dev-1
    all_run 6.0.0 - staging-1 staging-2 prod-1 prod-2
    note "The host has gone back by itself, with its data, and has said so. That is one of one: the group stops."
    state_is dev halted dev-1
    steers 0 autoupdate agents status
    note "On which host, and what is the next one told?"
    steers 0 hosts --failed
    steers 0 explain --host "$(uuid staging-1)"

    tell "6. 7.0.1 repairs it: the stop of 7.0.0 ends with it."
    target 6.0.0 7.0.1 >"$dir/version.yaml"
    quietly update -f version.yaml
    quietly autoupdate agents start-update dev
    timer dev-1
    all_run 7.0.1 - dev-1
    is_done dev dev-1

    tell "7. It runs, but the users of dev complain. The operator sends dev back: no host failed, so nothing is refused."
    steers 0 autoupdate agents rollback dev
    timer dev-1
    all_run 6.0.0 - "${fleet_hosts[@]}"
    is_known dev-1 6.0.0
    note "The cause was elsewhere. dev goes on to the same version, and the others follow."
    steers 0 autoupdate agents start-update dev
    timer dev-1
    all_run 7.0.1 - dev-1
    is_done dev dev-1
    rest_of_the_fleet
    all_run 7.0.1 - "${fleet_hosts[@]}"
}

# staging and prod, one after the other.
rest_of_the_fleet() {
    quietly autoupdate agents start-update staging
    timer staging-1 staging-2
    is_done staging staging-1 staging-2
    quietly autoupdate agents start-update prod
    note "prod has a canary: one of the two goes first, the other when that is fine."
    timer prod-1 prod-2
    is_done prod prod-1 prod-2
}

# is_done GROUP HOST..: its hosts said so; an image reports nothing.
is_done() {
    [ "$mode" != image ] || quietly autoupdate agents mark-done "$1"
    state_is "$1" 'done' "${@:2}"
}
