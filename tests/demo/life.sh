#!/bin/bash
# For demo.sh: the first act, a host's life.
# shellcheck disable=SC2154  # set by demo.sh and cluster.sh

# holds VERSION ROWS [REFUSED]: VERSION is what runs, ROWS are the versions that wrote a row at each of their starts.
holds() {
    local wanted="runs $1, rows $2, refused ${3:--}" what="the agent now runs $1; its database has the rows of the starts of: $2${3:+; refused: $3}"
    if [ "$mode" = image ]; then wanted="installed $1, refused -" what="the image holds Teleport $1"; fi
    until_seen 10 "$wanted" || fail "expected: $wanted; found: $seen"
    good "$what"
}

# release VERSION SCHEMA BEHAVIOUR: published, and named by the cluster from now on.
release() { publish "$1" "$2" "$3" "$arch"; }

# life: one host and the cluster's own find, in $addr.
life() {
    local ca=/etc/cluster-ca.pem
    # Longer than the broken release lives: at one second both would come at the same time.
    make_host one '  watch: 2s
  health:
    stable: 3s
    without_readiness: 2s
    deadline: 8s
'
    [ "$mode" != image ] || ca=$root$ca
    case $mode in
    bed) tell "A host: a fresh Debian with systemd, and the updater as its package leaves it." ;;
    sandbox) tell "A host: a sandbox without systemd (this machine can host no bed: $why)."
        note "The agent is started, stopped and reloaded by commands in updates.yaml, as with OpenRC or in a container." ;;
    image) tell "A host: an image in a directory, with --root (this machine can host no bed: $why)."
        note "No process runs in an image: the health check, the rollback and the database are left out here." ;;
    esac
    note "The cluster is a test server on this machine; Teleport is a small stand-in that keeps a real SQLite database"
    note "and writes one row at each start. Its releases carry this very updater."

    tell "1. Install: the cluster names 1.0.0."
    release 1.0.0 1 healthy
    runs 0 teleport-update enable --proxy "$addr" --base-url "$base_url" --ca-file "$ca"
    start_agent runs 0
    holds 1.0.0 "1.0.0"
    runs 0 ls -l "$([ "$mode" = image ] && echo "$root")/usr/local/bin"

    tell "2. Update: the cluster names 2.0.0, which migrates the database. First: what would happen?"
    release 2.0.0 2 healthy
    runs 0 teleport-update plan
    note "Now do it. The timer runs the same command every ten minutes."
    runs 0 teleport-update update
    holds 2.0.0 "1.0.0 2.0.0"

    if [ "$mode" != image ]; then
        tell "3. A broken release: 3.0.0 migrates the database, says that it is ready, and dies a second later."
        release 3.0.0 3 crash-loop
        runs 1 teleport-update update
        note "The database is 2.0.0's own again: 3.0.0's row and its new tables are gone from it (and kept aside)."
        holds 2.0.0 "1.0.0 2.0.0 2.0.0" 3.0.0
        note "The timer comes again; a version that failed waits, an hour at first."
        runs 0 teleport-update update
        runs 0 teleport-update status --format text
    else
        tell "3. A broken release: left out. Nothing runs in an image, so nothing can be seen to fail."
    fi

    tell "4. Roll forward: 4.0.0 repairs it. A new target clears the refusal."
    release 4.0.0 4 healthy
    runs 0 teleport-update update
    holds 4.0.0 "1.0.0 2.0.0 2.0.0 4.0.0"

    if [ "$mode" != image ]; then
        tell "5. Downgrade: the cluster names 2.0.0 again. It cannot read a database that 4.0.0 has migrated:
   the copy made when 2.0.0 was left is put back, with the agent stopped."
    else
        tell "5. Downgrade: the cluster names 2.0.0 again. It is still on disk, and there is no database yet to stand in the way."
    fi
    name_version 2.0.0
    runs 0 teleport-update update
    holds 2.0.0 "1.0.0 2.0.0 2.0.0 2.0.0"
    [ "$mode" = image ] || note "4.0.0's row is not lost: it is in the copy made when 4.0.0 was left, and comes back with 4.0.0."

    tell "6. How is the host?"
    runs 0 teleport-update status --format text
    runs 0 teleport-update verify
    runs 0 teleport-update plan

    case $mode in
    image) tell "Done: installed, updated, rolled forward, downgraded, in an image. Left out: rollback, health, database." ;;
    *) tell "Done: installed, updated, rolled back, rolled forward, downgraded." ;;
    esac
}
