#!/bin/bash
# For scripts that source it: the test cluster in a process of its own (`testing/src/cluster`), and how to lead it. Needs `fail`.

# shellcheck disable=SC2034  # the variables are for who sources this
# start_cluster CLUSTER AGENT UPDATER DIR: sets cluster_pid, addr, base_url, port.
start_cluster() {
    local key value
    exec 3< <(exec "$1" serve --dir "$4" --agent "$2" --updater "$3")
    cluster_pid=$!
    while IFS='=' read -r key value <&3; do
        case $key in
        addr) addr=$value ;;
        base_url) base_url=$value ;;
        plain_base_url) port=${value#http://localhost:} port=${port%/cdn} && return ;;
        esac
    done
    fail "the test cluster did not start"
}

stop_cluster() { [ -z "${cluster_pid:-}" ] || kill "$cluster_pid" 2>/dev/null || true; }

# post PATH JSON
post() {
    local answer
    exec 4<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "${#2}" "$2" >&4
    answer=$(cat <&4)
    exec 4>&-
    [[ $answer == "HTTP/1.1 200"* ]] || fail "the test cluster says: $answer"
}

# name_version VERSION: the cluster names it from now on.
name_version() { post /control/directive "{\"version\":\"$1\"}"; }

# publish VERSION SCHEMA BEHAVIOUR ARCH [false: without the updater], and name it.
publish() {
    post /control/publish "{\"version\":\"$1\",\"schema\":$2,\"behaviour\":\"$3\",\"arch\":\"$4\",\"updater\":${5:-true}}"
    name_version "$1"
}
