#!/bin/bash
# Runs the three programs of a bed as long as anybody holds a lock on `users`, and some seconds more; then takes all away.
# bash -c .. keeper DIR ETCD APISERVER MANAGER ETCD_PORT PEER_PORT API_PORT LINGER (half seconds)
set -u
dir=$1 etcd=$2 apiserver=$3 manager=$4 client=http://127.0.0.1:$5 peer=http://127.0.0.1:$6 port=$7 linger=$8
cd "$dir" || exit 1
exec 9<users
end() {
    local pids
    rm -f address
    pids=$(jobs -p)
    # shellcheck disable=SC2086 # words
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null
    wait
}
trap end EXIT

# Where nobody has it: nobody gets it any more, and nothing is left.
end_if_unused() {
    flock -n -x 9 || return 0
    if [ "$1" -gt "$linger" ]; then
        end
        rm -rf "$dir"
        exit
    fi
    flock -u 9
    return 1
}

run() {
    local name=$1
    shift
    setpriv --pdeathsig KILL "$@" </dev/null >"$name.log" 2>&1 9<&- &
}
run etcd "$etcd" --name bed --data-dir "$dir/etcd" --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "bed=$peer"
# Pods need no token of their own here, and no node is ever `not-ready`. Tests are many, and ask quickly.
run apiserver "$apiserver" --etcd-servers "$client" --bind-address 127.0.0.1 --advertise-address 127.0.0.1 --secure-port "$port" \
    --endpoint-reconciler-type none --service-cluster-ip-range 10.0.0.0/24 --authorization-mode RBAC \
    --tls-cert-file server.pem --tls-private-key-file server.key --token-auth-file tokens.csv --cert-dir "$dir" \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file account.pub \
    --service-account-signing-key-file account.key --disable-admission-plugins ServiceAccount,TaintNodesByCondition
# The folder of one that did not begin stays: its logs are for whoever waits.
until [ -e address ]; do
    end_if_unused 999
    [ "$(jobs -pr | wc -l)" = 2 ] || exit 1
    sleep 0.05
done
# An old one listens without TLS as well, unless told not to.
insecure=()
if "$manager" --help 2>&1 | grep -q -- '--port int'; then insecure=(--port 0); fi
# Only what the tests' workloads need, at their pace.
run manager "$manager" --kubeconfig manager.json --leader-elect=false --bind-address 127.0.0.1 --secure-port 0 \
    "${insecure[@]}" --cert-dir "$dir" \
    --controllers daemonset,deployment,garbagecollector,namespace,replicaset,statefulset \
    --kube-api-qps 1000 --kube-api-burst 1000
idle=0
while [ "$(jobs -pr | wc -l)" = 3 ]; do
    sleep 0.5
    if end_if_unused "$idle"; then idle=0; else idle=$((idle + 1)); fi
done
