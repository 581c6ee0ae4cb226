#!/bin/bash
# guest.sh VERB..   the guest's part of run.sh; runs inside the virtual machine, which has this file on a disk at /mnt.
set -uo pipefail

seen=/root/domains-seen
mark=/root/denials-seen
paths=(/var/lib/teleport /var/lib/teleport_dev /usr/local /opt /usr/lib/teleport-update /usr/bin/teleport-update /etc/systemd /etc/teleport.yaml
    /usr/bin/teleport-fleet /usr/lib/systemd/system/teleport-fleet.service /etc/teleport-fleet /etc/teleport-fleet.yaml
    /var/lib/teleport-fleet /run/teleport-fleet)

# Denials that concern us since the last look. (Of Debian's own there are some at each boot.) Counted from the log's
# beginning: a checkpoint of ausearch loses some.
denials() {
    local all
    all=$(ausearch -m avc,user_avc,selinux_err --input-logs </dev/null 2>/dev/null |
        grep -E '^type=(AVC|USER_AVC|SELINUX_ERR)' | grep teleport)
    tail -n "+$(($(cat "$mark" 2>/dev/null || echo 0) + 1))" <<<"$all"
    grep -c . <<<"$all" >"$mark"
}

case ${1:-} in
host)
    # What these flows need and no package brings. Names come from a name server, as on any host: its own socket and port.
    echo '127.0.0.1 vm' >/etc/hosts
    ln -sf ../run/systemd/resolve/stub-resolv.conf /etc/resolv.conf
    cp /mnt/ca.pem /etc/cluster-ca.pem
    # As systemd-resolved leaves it, but for the port.
    cat >/etc/systemd/system/names.service <<'UNIT'
[Service]
ExecStartPre=/bin/sh -c "mkdir -p /run/systemd/resolve; echo nameserver 127.0.0.1 >/run/systemd/resolve/stub-resolv.conf; restorecon -R /run/systemd/resolve"
ExecStart=/usr/bin/python3 /usr/local/sbin/names.py
[Install]
WantedBy=multi-user.target
UNIT
    cp /mnt/names.py /usr/local/sbin/
    # An instance of a cloud.
    mkdir -p /var/lib/cloud/data /var/lib/cloud/instances/i-1
    echo i-1 >/var/lib/cloud/data/instance-id
    ln -sfn instances/i-1 /var/lib/cloud/instance
    restorecon -R /etc/hosts /etc/resolv.conf /etc/cluster-ca.pem /etc/systemd/system /usr/local/sbin /var/lib/cloud
    systemctl daemon-reload
    systemctl -q enable --now names
    ;;
asked)
    # That a name was asked for by DNS since the last look.
    [ -s /run/names-asked ] || { echo "nobody asked the name server"; exit 1; }
    : >/run/names-asked
    ;;
setup)
    # What the package leaves, by hand.
    mkdir -p /usr/lib/teleport-update /usr/share/selinux/packages
    cp /mnt/teleport-update /usr/lib/teleport-update/
    ln -sf ../lib/teleport-update/teleport-update /usr/bin/teleport-update
    cp /mnt/teleport-update*.service /mnt/teleport-update*.timer /usr/lib/systemd/system/
    cp /mnt/teleport-update.cil /usr/share/selinux/packages/
    echo secret >/root/secret
    restorecon -R /usr/lib/systemd/system
    # shellcheck disable=SC1091 # the package's
    . /mnt/scriptlets.sh
    selinux_install
    systemctl daemon-reload
    systemctl -q enable teleport-update.timer teleport-update-recover.service
    ;;
prepare)
    # Quick verdicts.
    mkdir -p /var/lib/teleport/versions
    printf 'version: v1\nkind: agent_versions\nspec:\n  watch: 2s\n  health:\n    stable: 2s\n    without_readiness: 4s\n    deadline: 60s\n' \
        >/var/lib/teleport/versions/updates.yaml
    printf 'teleport:\n  data_dir: /var/lib/teleport\n' >/etc/teleport.yaml
    restorecon -R /etc/teleport.yaml
    denials >/dev/null
    rm -f "$seen"
    ;;
judge)
    wanted=initrc_t
    if grep -qx SELINUXTYPE=targeted /etc/selinux/config; then wanted=unconfined_service_t; fi
    [ "$2" = off ] || wanted=teleport_t
    found=$(denials)
    if [ -n "$found" ]; then echo "$found"; fi
    echo "denials $(grep -c . <<<"$found")"
    there=()
    for path in "${paths[@]}"; do if [ -e "$path" ]; then there+=("$path"); fi; done
    found=$(restorecon -Rnv "${there[@]}" 2>&1)
    if [ -n "$found" ]; then echo "$found"; fi
    echo "labels $(grep -c . <<<"$found")"
    running=$(ps -eo label,comm | awk '$2 == "teleport" { split($1, part, ":"); print part[3] }' | sort -u | tr '\n' ' ')
    verdict=ok
    case $running in '' | "$wanted ") ;; *) verdict=wrong ;; esac
    echo "domains $verdict agent: ${running:-none }"
    ;;
server-place)
    # The package's files, and what its script does.
    dpkg-deb --fsys-tarfile /mnt/teleport-fleet.deb | tar -x --no-overwrite-dir -C /
    mkdir -p /root/fleet-scripts
    dpkg-deb -e /mnt/teleport-fleet.deb /root/fleet-scripts
    sh /root/fleet-scripts/postinst configure ''
    ;;
server-configure)
    # With a certificate of 127.0.0.1, and a group that does not start by itself.
    mkdir -p /etc/teleport-fleet
    cp /mnt/fleet.pem /etc/teleport-fleet/fullchain.pem
    install -m 640 -g teleport-fleet /mnt/fleet-key.pem /etc/teleport-fleet/key.pem
    cat /mnt/fleet.pem /mnt/ca.pem >/root/fleet-and-cdn.pem
    printf '%s\n' 'tls_cert: /etc/teleport-fleet/fullchain.pem' 'tls_key: /etc/teleport-fleet/key.pem' 'listen: 127.0.0.1:8443' \
        'edition: oss' >/etc/teleport-fleet.yaml
    restorecon -R /etc/teleport-fleet /etc/teleport-fleet.yaml
    cat >/root/plan.yaml <<PLAN
kind: autoupdate_config
version: v1
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ['*'], start_hour: $((($(date -u +%-H) + 12) % 24)), jitter_seconds: 0}
---
kind: autoupdate_version
version: v1
metadata: {name: autoupdate-version}
spec:
  agents: {start_version: 1.0.0, target_version: 2.0.0, schedule: regular, mode: enabled}
PLAN
    ;;
server-runs)
    # It listens (its unit is of Type=notify), in its domain.
    systemctl is-active -q teleport-fleet || { systemctl status --no-pager teleport-fleet; exit 1; }
    domain=$(tr -d '\0' <"/proc/$(systemctl show -p MainPID --value teleport-fleet)/attr/current")
    [[ $domain == *:teleport_fleet_t:* ]] || { echo "the server runs in $domain"; exit 1; }
    ;;
forget)
    denials >/dev/null
    ;;
runs)
    # Until the running agent is this version's.
    for ((i = 0; i < 300; i++)); do
        for pid in $(pidof teleport); do
            case $(readlink "/proc/$pid/exe") in */versions/$2/*) exit 0 ;; esac
        done
        sleep 0.1
    done
    echo "the agent is not $2: $(systemctl status --no-pager teleport | head -n 5)"
    exit 1
    ;;
others)
    # Names that are ours in our directories are nothing special in those of others.
    mkdir -p /var/lib/other/versions/bin /var/lib/other/versions/backup /var/lib/other/teleport/bin
    touch /var/lib/other/versions/bin/teleport
    found=$(find /var/lib/other -exec ls -dZ {} + | grep teleport_)
    rm -r /var/lib/other
    [ -z "$found" ] || { echo "$found"; exit 1; }
    ;;
seal)
    # /usr as an image has it that seals it, /usr/local included.
    mount --bind /usr /usr && mount -o remount,ro,bind /usr
    ;;
unseal)
    umount -l /usr
    ;;
control)
    # A denial is seen: without that, none seen would mean nothing.
    bash "$0" probe teleport_update_exec_t 'echo x >>/etc/shadow'
    found=$(denials)
    grep -q 'denied.*teleport_update_t.*shadow_t' <<<"$found" || { echo "the denial is not in the log: $found"; exit 1; }
    rm -rf /var/lib/teleport
    ;;
timer)
    mkdir -p /etc/systemd/system/teleport-update.timer.d
    printf '[Timer]\nOnBootSec=\nOnUnitInactiveSec=\nOnActiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=100ms\n' \
        >/etc/systemd/system/teleport-update.timer.d/now.conf
    systemctl daemon-reload
    before=$(readlink /usr/local/bin/teleport)
    systemctl restart teleport-update.timer
    for ((i = 0; i < 1200; i++)); do
        ps -eo label,comm | awk '$2 ~ /^teleport-update/ { split($1, part, ":"); print part[3] }' >>"$seen"
        case $(systemctl show -p ActiveState --value teleport-update.service) in
        inactive) [ "$(readlink /usr/local/bin/teleport)" = "$before" ] || break ;;
        failed) break ;;
        esac
        sleep 0.3
    done
    systemctl stop teleport-update.timer
    rm -r /etc/systemd/system/teleport-update.timer.d
    systemctl daemon-reload
    systemctl is-failed -q teleport-update.service && exit 1
    exit 0
    ;;
watch)
    # Until a process in this domain was seen.
    for ((i = 0; i < 600; i++)); do
        if [[ $(ps -eo label) == *:"$2":* ]]; then
            echo "$2" >>"$seen"
            exit 0
        fi
        sleep 0.1
    done
    ;;
saw)
    # This domain.
    grep -qx "$2" "$seen" || { echo "not seen in $2: $(sort "$seen" | uniq -c)"; exit 1; }
    ;;
until-journal)
    # In the middle of the switch: the journal is there, and the agent's link leads to the new version.
    for ((i = 0; i < 6000; i++)); do
        if [ -s /var/lib/teleport/versions/.journal ]; then exit 0; fi
        sleep 0.02
    done
    exit 1
    ;;
probe)
    # probe TYPE LINE: LINE by a shell that init starts from a file of TYPE, so in the domain of that type.
    type=$2 line=$3
    mkdir -p /var/lib/teleport/versions/9.9.9/bin /var/lib/teleport/versions/9.9.9/backup /var/lib/teleport/proc
    touch /var/lib/teleport/versions/updates.yaml /var/lib/teleport/versions/.credentials /var/lib/teleport/proc/sqlite.db \
        /var/lib/teleport/versions/9.9.9/backup/sqlite.db
    cp /bin/sh /var/lib/teleport/versions/9.9.9/bin/teleport
    restorecon -R /var/lib/teleport
    rm -f /usr/bin/planted /var/lib/teleport/versions/9.9.9/planted /usr/bin/probe
    systemctl reset-failed 2>/dev/null
    cp /bin/sh /usr/bin/probe
    if [ "$type" = teleport_fleet_exec_t ]; then cp /mnt/static-shell /usr/bin/probe; fi
    if [ "$type" = check ]; then
        # As the updater does it: it asks for the domain, and runs the program.
        chcon -t teleport_update_exec_t /usr/bin/probe
        script="exec 9</dev/null; echo -n system_u:system_r:teleport_update_check_t:s0 >/proc/self/attr/exec && exec /var/lib/teleport/versions/9.9.9/bin/teleport -c \"\$1\""
        systemd-run -q --wait --collect -p StandardOutput=null -p StandardError=null /usr/bin/probe -c "$script" probe "$line"
    else
        chcon -t "$type" /usr/bin/probe
        systemd-run -q --wait --collect -p StandardOutput=null -p StandardError=null /usr/bin/probe -c "$line"
    fi
    status=$?
    cp -p /etc/shadow- /etc/shadow 2>/dev/null
    rm -f /usr/bin/planted /usr/bin/probe /var/lib/teleport/versions/9.9.9/planted
    exit $status
    ;;
*)
    echo "guest.sh: not a verb: ${1:-}" >&2
    exit 2
    ;;
esac
