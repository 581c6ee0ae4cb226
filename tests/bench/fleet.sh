#!/bin/bash
# fleet.sh FLEET   measures the rollout server beside nginx that serves the same bytes, and prints a table in Markdown.
#
# The server, or nginx with one worker, has one core, the client (wrk) another. Rounds alternate between the two; the median of
# ROUNDS (5) counts. Both have the same P-256 certificate, and no session is resumed: each connection is a whole handshake.
set -euo pipefail

fleet=$1 rounds=${ROUNDS:-5} seconds=${SECONDS_EACH:-5}
# Hosts that the server knows, and asks of which the client repeats.
hosts=1000
server_core=0 client_core=1
work=$(mktemp -d)
fleet_pid='' nginx_pid=''

finish() {
    local pid
    for pid in $fleet_pid $nginx_pid; do
        if kill "$pid" 2>/dev/null; then tail --pid="$pid" -f /dev/null; fi
    done
    rm -rf "$work"
}
trap finish EXIT

fail() { echo "bench: $*" >&2; exit 1; }
for program in wrk nginx openssl taskset; do
    command -v $program >/dev/null || fail "there is no $program: apt-get install wrk nginx-light openssl util-linux"
done
[ "$(nproc)" -ge 2 ] || fail "one core for the server and one for the client are needed"

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
    -addext 'subjectAltName = DNS:localhost, IP:127.0.0.1' -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null

# start FLAG..: the server; $address is where it answers.
start() {
    exec 5< <(exec taskset -c $server_core "$fleet" serve --listen 127.0.0.1:0 --metrics 127.0.0.1:0 --edition oss --config "$work/config.yaml" \
        --data "$work/data" --admin-socket "$work/admin.sock" "$@" 2>"$work/log")
    fleet_pid=$!
    read -r address _ <&5 || { cat "$work/log" >&2; fail "the server did not start"; }
}

stop() {
    kill "$fleet_pid"
    tail --pid="$fleet_pid" -f /dev/null
    fleet_pid=
}

resident() { awk '/^VmRSS/ { printf "%.1f MiB", $2 / 1024 }' "/proc/$1/status"; }
# Ticks of a hundredth of a second that a process has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

# Every question of known hosts, made before the clock runs.
cat >"$work/ask.lua" <<END
local questions, number = {}, 0
function init(args)
    for host = 1, $hosts do
        local uuid = string.format("%08x-0000-4000-8000-%012x", host, host)
        local path = "/v1/webapi/find?host=" .. uuid .. "&group=" .. (host % 2 == 0 and "dev" or "prod")
        questions[host] = wrk.format("GET", path, {["Host"] = "localhost", ["Connection"] = args[1]})
    end
end
function request()
    number = number % $hosts + 1
    return questions[number]
end
END

# load URL CONNECTION: requests that were answered, and whether any was not.
load() {
    taskset -c $client_core wrk -t1 -c"$3" -d"${seconds}s" -s "$work/ask.lua" "$1" -- "$2" >"$work/wrk"
    if grep -q 'Non-2xx\|Socket errors' "$work/wrk"; then cat "$work/wrk" >&2; fail "not every question was answered"; fi
    awk '/requests in/ { requests = $1 } /^Requests\/sec/ { print requests, $2 }' "$work/wrk"
}

echo '{}' >"$work/config.yaml"
cat >"$work/resources.yaml" <<'END'
kind: autoupdate_config
version: v1
metadata: {name: autoupdate-config}
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
      - {name: dev, days: ['*'], start_hour: 3}
      - {name: prod, days: ['*'], start_hour: 4, wait_hours: 24}
---
kind: autoupdate_version
version: v1
metadata: {name: autoupdate-version}
spec:
  agents: {start_version: 17.2.0, target_version: 17.2.1, schedule: regular, mode: enabled}
END

start --plain
rest=$(resident "$fleet_pid")
"$fleet" --admin-socket "$work/admin.sock" create -f "$work/resources.yaml" >/dev/null
# Each host asks once, so that it is known.
load "http://$address" keep-alive 8 >/dev/null
known=$("$fleet" --admin-socket "$work/admin.sock" hosts --format json | grep -c '"host"')
[ "$known" = $hosts ] || fail "the server knows $known of $hosts hosts"
curl -fsS "http://$address/v1/webapi/find?host=00000001-0000-4000-8000-000000000001&group=prod" >"$work/answer"

cat >"$work/nginx.conf" <<END
daemon off;
user root;
worker_processes 1;
pid $work/nginx.pid;
error_log $work/nginx.log;
worker_rlimit_nofile 10000;
events { worker_connections 4096; }
http {
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    open_file_cache max=100 inactive=1h;
    default_type application/json;
    ssl_certificate $work/cert.pem;
    ssl_certificate_key $work/key.pem;
    ssl_protocols TLSv1.3;
    ssl_session_tickets off;
    ssl_session_cache off;
    client_body_temp_path $work/body;
    proxy_temp_path $work/proxy;
    fastcgi_temp_path $work/fastcgi;
    uwsgi_temp_path $work/uwsgi;
    scgi_temp_path $work/scgi;
    server {
        listen 127.0.0.1:PLAIN reuseport;
        listen 127.0.0.1:TLS ssl reuseport;
        location = /v1/webapi/find { alias $work/served; }
    }
}
END
# Two ports that are free now.
read -r plain tls < <(python3 -c '
import socket
a, b = socket.socket(), socket.socket()
a.bind(("127.0.0.1", 0)); b.bind(("127.0.0.1", 0))
print(a.getsockname()[1], b.getsockname()[1])')
sed -i "s/:PLAIN/:$plain/; s/:TLS/:$tls/" "$work/nginx.conf"
cp "$work/answer" "$work/served"
taskset -c $server_core nginx -c "$work/nginx.conf" -p "$work" &
nginx_pid=$!
for _ in $(seq 100); do curl -fsS -o /dev/null "http://127.0.0.1:$plain/v1/webapi/find" 2>/dev/null && break; sleep 0.05; done
worker() { pgrep -P "$nginx_pid"; }

echo "bench: keep-alive, plain" >&2
for _ in $(seq "$rounds"); do
    load "http://$address" keep-alive 32 | cut -d' ' -f2 >>"$work/ours.plain"
    load "http://127.0.0.1:$plain" keep-alive 32 | cut -d' ' -f2 >>"$work/nginx.plain"
    tail -qn1 "$work/ours.plain" "$work/nginx.plain" | paste -sd' ' | awk '{ print $1 / $2 }' >>"$work/ratio.plain"
done
asked=$(resident "$fleet_pid")
stop
start --tls-cert "$work/cert.pem" --tls-key "$work/key.pem"

# cost PID URL: CPU milliseconds of the process for an answer.
cost() {
    local before requests
    before=$(ticks "$1")
    requests=$(load "$2" close 16 | cut -d' ' -f1)
    awk -v used=$(($(ticks "$1") - before)) -v requests="$requests" 'BEGIN { print used * 10 / requests }'
}
echo "bench: a new TLS connection for each question" >&2
for _ in $(seq "$rounds"); do
    cost "$fleet_pid" "https://$address" >>"$work/ours.tls"
    cost "$(worker)" "https://127.0.0.1:$tls" >>"$work/nginx.tls"
    tail -qn1 "$work/ours.tls" "$work/nginx.tls" | paste -sd' ' | awk '{ print $2 / $1 }' >>"$work/ratio.tls"
done

m() { median <"$work/$1"; }
cat <<END
| what | at least / at most | teleport-fleet | nginx | ratio |
|---|---|---:|---:|---:|
| find, answers a second and core, keep-alive, plain, $known known hosts | ratio 1.0, and 100 000 | $(m ours.plain) | $(m nginx.plain) | $(m ratio.plain) |
| the same, a new TLS 1.3 connection each: CPU milliseconds an answer | nginx ÷ ours 1.0 | $(m ours.tls) | $(m nginx.tls) | $(m ratio.tls) |
| memory at rest, after the start; after the questions | | $rest; $asked | | |
| static binary | 16 MiB | $(stat -c %s "$fleet" | awk '{ printf "%.2f MiB", $1 / 1048576 }') | | |

Medians of $rounds rounds of $seconds s; $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo), Linux $(uname -r).
END
