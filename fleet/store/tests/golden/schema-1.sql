PRAGMA application_id = 1416644204;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE schema_version (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO schema_version VALUES(1,1);
CREATE TABLE store (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    epoch         TEXT    NOT NULL,
    arrivals      INTEGER NOT NULL DEFAULT 0,
    restored_held INTEGER NOT NULL DEFAULT 0,
    head_seq      INTEGER NOT NULL DEFAULT 0,
    head_hash     TEXT    NOT NULL,
    backup_at     TEXT
) STRICT;
INSERT INTO store VALUES(1,'6f1c2a52-3c8e-4d0a-9b1f-000000000001',12,0,2,'1fc936ca45709786bd0edb6749140095b74ac47569267b1494913cfc40ca9984',NULL);
CREATE TABLE book (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL DEFAULT 0,
    json     TEXT
) STRICT;
INSERT INTO book VALUES(1,2,'{"policy":{"mode":"enabled","strategy":"halt-on-error","window":"PT0S","regular":[{"name":"default","members":null,"gate":{"opening":{"days":["Mon","Tue","Wed","Thu"],"hour":12,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":[],"blackout":[],"approval":null,"external":null},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":null},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}}],"critical":[],"unassigned":"last","ungrouped":null},"target":{"start":"1.2.3","target":"1.2.4","schedule":"regular","mode":"enabled"},"holds":{"all":true,"groups":["held"],"released":["released"]},"rollout":{"id":340282366920938463463374607431768211455,"number":7,"start":"1.2.3","target":"1.2.4","schedule":"regular","mode":"enabled","strategy":"halt-on-error","window":"PT0S","without_windows":false,"unassigned":"last","ungrouped":null,"groups":[{"policy":{"name":"default","members":{"node":"labels[\"env\"] == \"prod\"","instance":null},"gate":{"opening":{"days":["Mon","Tue","Wed","Thu"],"hour":12,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":["canary"],"blackout":[{"from":"2023-11-14T22:13:20Z","to":"2023-11-15T22:13:20Z","reason":"the year''s end"}],"approval":"operator","external":{"url":"https://gate.example/","timeout_seconds":5}},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":{"base":10,"factor_hundredths":200,"maximum":1000}},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}},"state":"halted","start_time":null,"done_time":null,"last_update_time":"2023-11-14T22:13:20Z","last_update_reason":"cannot_start","initial_count":0,"present_count":0,"up_to_date_count":0,"canaries":[{"updater_id":340282366920938463463374607431768211455,"host_id":340282366920938463463374607431768211454,"success":true,"let_go":true}],"cursor":{"key":18446744073709551615,"id":340282366920938463463374607431768211455},"retry":null,"retry_to":0,"retry_for":[1,false],"complete_to":0,"pass_to":0,"counted_to":0,"attempt":1,"attempt_began":1700000000,"halt":{"rule":"failed_threshold","count":3,"of":20,"error":"unhealthy","at":"2023-11-14T22:13:20Z","from":"active"},"is_closed":false,"forced":null,"at_once":false,"approved":false,"gate":"stop","rate":{"hour":"2023-11-14T22:13:20Z","granted":3,"allowed":10,"updated":2,"failed":1},"let_go_count":0,"tally":{"excluded":0,"updated":0,"failed":0,"timed_out":0,"told":0,"silent":0,"let_go":0,"pending":0,"counted":0,"counted_failed":0,"counted_reported":0,"counted_timed_out":0,"counted_ended":0,"present":0,"up_to_date":0,"asking":0,"ever_let_go":0},"reason":{"code":"outside_window","since":"2023-11-14T22:13:20Z","until":"2023-11-15T12:00:00Z"}}],"start_time":"2023-11-14T22:13:20Z","last_step":"2023-11-14T22:13:20Z"},"number":7,"last_done":"1.2.3","done_before":"1.2.2","halted":[],"seed":18446744073709551615,"last_step":"2023-11-14T22:13:20Z"}');
CREATE TABLE rollout (
    number INTEGER PRIMARY KEY,
    json   TEXT NOT NULL
) STRICT;
INSERT INTO rollout VALUES(6,'{"id":340282366920938463463374607431768211455,"number":6,"start":"1.2.3","target":"1.2.4","schedule":"regular","mode":"enabled","strategy":"halt-on-error","window":"PT0S","without_windows":false,"unassigned":"last","ungrouped":null,"groups":[{"policy":{"name":"default","members":null,"gate":{"opening":{"days":["Mon","Tue","Wed","Thu"],"hour":12,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":[],"blackout":[],"approval":null,"external":null},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":null},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}},"state":"unstarted","start_time":null,"done_time":null,"last_update_time":"2023-11-14T22:13:20Z","last_update_reason":"cannot_start","initial_count":0,"present_count":0,"up_to_date_count":0,"canaries":[{"updater_id":340282366920938463463374607431768211455,"host_id":340282366920938463463374607431768211454,"success":true,"let_go":true}],"cursor":{"key":18446744073709551615,"id":340282366920938463463374607431768211455},"retry":null,"retry_to":0,"retry_for":[1,false],"complete_to":0,"pass_to":0,"counted_to":0,"attempt":1,"attempt_began":1700000000,"halt":null,"is_closed":false,"forced":null,"at_once":false,"approved":false,"gate":null,"rate":null,"let_go_count":0,"tally":{"excluded":0,"updated":0,"failed":0,"timed_out":0,"told":0,"silent":0,"let_go":0,"pending":0,"counted":0,"counted_failed":0,"counted_reported":0,"counted_timed_out":0,"counted_ended":0,"present":0,"up_to_date":0,"asking":0,"ever_let_go":0},"reason":{"code":"outside_window","since":"2023-11-14T22:13:20Z","until":"2023-11-15T12:00:00Z"}}],"start_time":"2023-11-14T22:13:20Z","last_step":"2023-11-14T22:13:20Z"}');
CREATE TABLE resource (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision TEXT NOT NULL,
    yaml     TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;
INSERT INTO resource VALUES('fleet_channel','stable/cloud','r-1',replace('kind: fleet_channel # a comment\nversion: v1\n','\n',char(10)));
CREATE TABLE host (
    id     BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    record TEXT NOT NULL
) STRICT;
INSERT INTO host VALUES(X'ffffffffffffffffffffffffffffffff','{"update_id":340282366920938463463374607431768211455,"labels":{"label-0":"value-0","label-1":"value-1","label-2":"value-2","label-3":"value-3","label-4":"value-4","label-5":"value-5","label-6":"value-6","label-7":"value-7"},"declared":"prod","assigned":"special","version":"1.2.3","flags":{"pinned":true,"disabled":false,"held":false},"heard":1700000000,"arrival":1,"joined":1,"enrolled":3,"reports":true,"last":{"outcome":"rolled_back","to":"1.3.0","code":"unhealthy","at":1700000000},"failure":{"to":"1.3.0","code":"unhealthy","at":1700000000},"mark":{"rollout":7,"told":1700000001,"started":1700000002,"switched":1700000003,"arrived":1700000004,"lost":null}}');
INSERT INTO host VALUES(X'00000000000000000000000000000002','{"update_id":2,"labels":{"label-0":"value-0","label-1":"value-1","label-2":"value-2","label-3":"value-3","label-4":"value-4","label-5":"value-5","label-6":"value-6","label-7":"value-7"},"declared":"prod","version":"1.2.4","flags":{"pinned":true,"disabled":false,"held":false},"heard":1700000000,"arrival":1,"joined":1,"enrolled":1,"reports":true,"last":{"outcome":"rolled_back","to":"1.3.0","code":"unhealthy","at":1700000000},"failure":{"to":"1.3.0","code":"unhealthy","at":1700000000}}');
CREATE TABLE request (
    id      TEXT PRIMARY KEY NOT NULL,
    outcome TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
INSERT INTO request VALUES('0b54cf0e-0000-4000-8000-000000000001','{"groups":[]}',1700000000);
CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY CHECK (seq > 0),
    at       TEXT    NOT NULL,
    who      TEXT    NOT NULL,
    origin   TEXT    NOT NULL,
    action   TEXT    NOT NULL,
    subject  TEXT    NOT NULL,
    done     INTEGER NOT NULL CHECK (done IN (0, 1)),
    detail   TEXT    NOT NULL,
    before   TEXT    NOT NULL,
    after    TEXT    NOT NULL,
    previous TEXT    NOT NULL,
    hash     TEXT    NOT NULL
) STRICT;
INSERT INTO audit VALUES(1,'2026-11-23T07:00:00.5Z','uid 0 (root)','admin socket','halt','group prod',1,'{"count":3,"error":"unhealthy"}','a','b','0000000000000000000000000000000000000000000000000000000000000000','2c10a3571f835ec4d86367cd1b8c8a05d44abb896dc6e0ea2bd7ec158077e637');
INSERT INTO audit VALUES(2,'2026-11-23T07:00:00.5Z','uid 0 (root)','admin socket','run','group ümlaut',0,'{"error":{"code":"conflict"}}','a','b','2c10a3571f835ec4d86367cd1b8c8a05d44abb896dc6e0ea2bd7ec158077e637','1fc936ca45709786bd0edb6749140095b74ac47569267b1494913cfc40ca9984');
CREATE INDEX request_at ON request (at);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_goes_on BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq >= NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
COMMIT;
