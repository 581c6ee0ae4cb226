#!/bin/bash
# For run.sh, which sources it: the rollout server under SELinux, from its package on, with a host that follows it; and what its
# domain must not do. Uses flow, negative, guest, release, name, policy.
# shellcheck disable=SC2154  # who sources this assigns them

# server_files PROGRAM DIR: what the guest needs of it: the package, a certificate of 127.0.0.1, a shell that needs no library.
server_files() {
    local program=$1 dir=$2
    "$here/../../selinux/build.sh" "$work/teleport-fleet.cil"
    cp "$program" "$work/teleport-fleet"
    strip "$work/teleport-fleet" 2>/dev/null || true
    "$here/../../packaging/build.sh" --of "$here/../../packaging/fleet/package.conf" --out "$work/fleet-package" --version 1.0.0 \
        --level 0 --binary "amd64=$work/teleport-fleet" --selinux "$work/teleport-fleet.cil" >/dev/null
    cp "$work"/fleet-package/*.deb "$dir/teleport-fleet.deb"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=fleet \
        -addext 'subjectAltName = IP:127.0.0.1' -addext 'basicConstraints = critical, CA:FALSE' \
        -keyout "$dir/fleet-key.pem" -out "$dir/fleet.pem" 2>/dev/null
    # mksh's, linked with klibc: what it is told runs in the server's domain, which has no right to a library, nor to `cat`.
    cp -L /bin/mksh-static "$dir/static-shell"
}

server() {
    # By dpkg where its scripts can run (see under_policy), else as they do it.
    if [ "$policy" = fedora ]; then
        flow "server: put in place" 0 "bash /mnt/guest.sh server-place"
    else
        flow "server: dpkg -i" 0 "dpkg -i /mnt/teleport-fleet.deb && semodule -lfull | grep -q '^200 teleport-fleet '"
    fi
    flow "server: its first start" 0 "bash /mnt/guest.sh server-configure && systemctl enable --now teleport-fleet && bash /mnt/guest.sh server-runs"
    guest "rm -rf /var/lib/teleport; bash /mnt/guest.sh prepare"
    release 1.0.0 1 healthy
    release 2.0.0 2 healthy true
    flow "server: a host enrols by report" 0 "teleport-fleet create -f /root/plan.yaml && teleport-update enable --proxy 127.0.0.1:8443 --group dev --base-url $base_url --ca-file /root/fleet-and-cdn.pem && systemctl enable --now teleport && bash /mnt/guest.sh runs 1.0.0 && $service && teleport-fleet hosts --format json | grep -q 1.0.0"
    flow "server: its group starts, it follows" 0 "teleport-fleet autoupdate agents start-update dev && $service && bash /mnt/guest.sh runs 2.0.0"
    flow "server: halt, reload, restart, run" 0 "teleport-fleet autoupdate agents halt --all && systemctl reload teleport-fleet && systemctl restart teleport-fleet && bash /mnt/guest.sh server-runs && teleport-fleet autoupdate agents run --all && teleport-fleet audit verify"
    flow "server: backup, restore" 0 "teleport-fleet backup /root/fleet.backup && systemctl stop teleport-fleet && teleport-fleet restore --force /root/fleet.backup && systemctl start teleport-fleet && bash /mnt/guest.sh server-runs && teleport-fleet autoupdate agents run --all"
    "$vm_sh" cut "$name"
    guest "mount -o ro,context=system_u:object_r:bin_t:s0 /dev/vdb /mnt"
    flow "server: power cut, boot" 0 "bash /mnt/guest.sh server-runs && teleport-fleet audit verify && $service"
    server_negatives
    flow "server: the host leaves" 0 "systemctl disable --now teleport && teleport-update uninstall"
    if [ "$policy" != fedora ]; then
        flow "server: dpkg --purge" 0 "dpkg --purge teleport-fleet && ! semodule -l | grep -qx teleport-fleet && ! test -e /var/lib/teleport-fleet && ! restorecon -Rnv /usr/bin /etc /usr/lib/systemd | grep teleport"
    fi
}

server_negatives() {
    # A shell in that domain works at all, and does what the server may.
    flow "server: control: its domain reads its key" 0 "bash /mnt/guest.sh probe teleport_fleet_exec_t ': </etc/teleport-fleet/key.pem'"
    negative "the server writes /etc/shadow" teleport_fleet_exec_t 'echo x >>/etc/shadow'
    negative "the server writes its own configuration" teleport_fleet_exec_t 'echo "#" >>/etc/teleport-fleet.yaml'
    negative "the server reads root's home" teleport_fleet_exec_t ': </root/secret'
    negative "the server reads the agent's database" teleport_fleet_exec_t ': </var/lib/teleport/proc/sqlite.db'
    negative "the server runs another program" teleport_fleet_exec_t '/usr/bin/id'
    # With modes that keep nobody from them: it is for the types to do that.
    guest "chmod o+rx /var/lib/teleport-fleet; chmod o+r /var/lib/teleport-fleet/fleet.db"
    negative "another daemon (chronyd) reads the server's data" chronyd_exec_t 'cat /var/lib/teleport-fleet/fleet.db'
    negative "another daemon (chronyd) reads the server's key" chronyd_exec_t 'cat /etc/teleport-fleet/key.pem'
    # What the probes were denied is no denial of the next flow's.
    guest "chmod 700 /var/lib/teleport-fleet; chmod 600 /var/lib/teleport-fleet/fleet.db; bash /mnt/guest.sh forget"
}
