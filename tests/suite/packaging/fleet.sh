# shellcheck shell=bash
# What tests of the rollout server's package call in its bed.

# As an operator writes it: the certificate's key is for the server's group alone.
configure() {
    mkdir -p /etc/teleport-fleet
    cd /etc/teleport-fleet || return
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=fleet -keyout key.pem -out request 2>/dev/null
    echo 'subjectAltName = IP:127.0.0.1' >names
    openssl x509 -req -in request -signkey key.pem -days 2 -extfile names -out fullchain.pem 2>/dev/null
    chgrp teleport-fleet key.pem
    chmod 640 key.pem
    printf '%s\n' 'tls_cert: /etc/teleport-fleet/fullchain.pem' 'tls_key: /etc/teleport-fleet/key.pem' >/etc/teleport-fleet.yaml
}

# What the server says, over TLS, at the port that needs a capability.
ask() {
    printf 'GET %s HTTP/1.1\r\nHost: fleet\r\nConnection: close\r\n\r\n' "$1" |
        openssl s_client -quiet -connect 127.0.0.1:443 -CAfile /etc/teleport-fleet/fullchain.pem -verify_return_error 2>/dev/null
}

# The server answers a host of `staging`, with this text in it.
answers() {
    ask '/v1/webapi/find?group=staging' >/root/answer
    cat /root/answer >&2
    grep -q '^HTTP/1.1 200 ' /root/answer
    grep -qF "$1" /root/answer
}
