#!/usr/bin/python3
"""The guest's name server: localhost is the machine that hosts it (10.0.2.2), and there is no other name."""

import socket

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
while True:
    asked, who = server.recvfrom(512)
    # After the header of 12 bytes the name's labels, an empty one at the end, then type and class.
    end = 12
    while asked[end]:
        end += 1 + asked[end]
    is_known = asked[12:end].lower() == b"\x09localhost"
    is_address = asked[end + 1:end + 3] == b"\0\x01"
    answer = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x0a\0\x02\x02" if is_known and is_address else b""
    flags = b"\x81\x80" if is_known else b"\x81\x83"
    counts = b"\0\x01" + (b"\0\x01" if answer else b"\0\0") + b"\0\0\0\0"
    server.sendto(asked[:2] + flags + counts + asked[12:end + 5] + answer, who)
    with open("/run/names-asked", "ab") as log:
        log.write(asked[12:end] + b"\n")
