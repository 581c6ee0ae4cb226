#!/bin/bash
# For demo.sh: the hosts, by $mode; see there. A host is $root, and in a bed $bed as well.

# shellcheck disable=SC2154  # set by demo.sh and cluster.sh
on_host() {
    case $mode in
    bed) "$here/beds/bed.sh" exec "$bed" env TERM="${TERM:-dumb}" "$@" ;;
    sandbox) chroot "$root" /usr/bin/env -i HOME=/root LANG=C.UTF-8 TERM="${TERM:-dumb}" \
        PATH=/usr/local/sbin:/usr/local/bin:/opt/teleport-update:/usr/sbin:/usr/bin:/sbin:/bin "$@" ;;
    image) case $1 in teleport-update) shift; "$updater" --root "$root" "$@" ;; *) "$@" ;; esac ;;
    esac
}

# make_host NAME QUICK: $root, $bed. QUICK are lines of spec.health and spec.watch for quick verdicts, so that the demo is short.
make_host() {
    bed='' root=$work/hosts/$1
    "make_$mode" "$1" "$2"
}

settings() {
    mkdir -p "$root/var/lib/teleport/versions" "$root/etc"
    printf 'version: v1\nkind: agent_versions\nspec:\n%s' "$1" >"$root/var/lib/teleport/versions/updates.yaml"
    printf 'teleport:\n  data_dir: /var/lib/teleport\n' >"$root/etc/teleport.yaml"
    cp "$work/cluster/ca.pem" "$root/etc/cluster-ca.pem"
}

make_bed() {
    local unit
    bed=demo-$$-$1
    echo "$bed" >>"$work/beds"
    root=$(BED_OWNER=$$ "$here/beds/bed.sh" up "$bed")
    install -D "$updater" "$root/usr/lib/teleport-update/teleport-update"
    ln -s ../lib/teleport-update/teleport-update "$root/usr/bin/teleport-update"
    for unit in teleport-update.service teleport-update.timer teleport-update-recover.service; do
        install -m 644 "$here/../systemd/$unit" "$root/usr/lib/systemd/system/$unit"
    done
    printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
    on_host systemctl -q enable teleport-update.timer teleport-update-recover.service 2>/dev/null
    settings "$2"
}

# Within name spaces of our own: nothing is mounted or written outside of them. /usr is the host's, read-only.
make_sandbox() {
    local each
    mkdir -p "$root"
    mount -t tmpfs -o mode=755 demo "$root"
    for each in /bin /sbin /lib /lib32 /lib64 /libx32 /usr /dev; do
        if [ -L "$each" ]; then
            cp -P "$each" "$root$each"
        elif [ -d "$each" ]; then
            mkdir "$root$each"
            mount --rbind "$each" "$root$each"
            [ "$each" = /dev ] || mount -o remount,bind,ro "$root$each"
        fi
    done
    mkdir -p "$root"/{etc,opt/teleport-update,proc,root,run,tmp,var/lib,var/log}
    mount -t tmpfs -o mode=755 demo "$root/usr/local"
    mount -t proc proc "$root/proc"
    mkdir -p "$root/usr/local/bin"
    printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
    cp /etc/passwd /etc/group "$root/etc/"
    install "$updater" "$root/opt/teleport-update/teleport-update"
    # shellcheck disable=SC2016 # for the shell that runs them
    settings "$2"'  service:
    start: teleport start --config /etc/teleport.yaml --pid-file /run/teleport.pid >>/var/log/teleport.log 2>&1 &
    stop: kill "$(cat /run/teleport.pid)"
    reload: kill -HUP "$(cat /run/teleport.pid)"
    pid_file: /run/teleport.pid
'
}

make_image() { settings "$2"; }

# start_agent SHOW: as an administrator does it once; SHOW is `runs 0` or `on_host`. Nothing runs in an image.
start_agent() {
    case $mode in
    bed) "$@" systemctl -q enable --now teleport ;;
    sandbox) "$@" sh -c 'teleport start --config /etc/teleport.yaml --pid-file /run/teleport.pid >/var/log/teleport.log 2>&1 &' ;;
    esac
}

# A line about the host: what it runs, what its database holds, what it refuses.
look() {
    on_host teleport-update status --format json 2>/dev/null | python3 -c '
import json, sqlite3, sys
mode, path = sys.argv[1:]
status = json.load(sys.stdin)
refused = " ".join(each["version"] for each in status["refused"]) or "-"
if mode == "image":
    print("installed %s, refused %s" % (status["agent_version_linked"], refused))
    sys.exit()
rows = sqlite3.connect("file:" + path + "?mode=ro", uri=True).execute("SELECT version FROM rows ORDER BY id")
print("runs %s, rows %s, refused %s" % (status["agent_version_running"], " ".join(row[0] for row in rows), refused))
' "$mode" "$root/var/lib/teleport/proc/sqlite.db"
}

# until_seen SECONDS REGEX: `look` until it says so; the agent may still be starting. $seen is what it said last.
until_seen() {
    local end=$((SECONDS + $1))
    while ((SECONDS < end)); do
        seen=$(look) || true
        if [[ $seen =~ ^$2$ ]]; then return 0; fi
        sleep 0.1
    done
    return 1
}
