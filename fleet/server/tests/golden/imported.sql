PRAGMA application_id = 1416644204;
BEGIN TRANSACTION;
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
INSERT INTO "audit" VALUES(1,'2026-11-27T22:05:27.761758005Z','uid 0 (root)','admin socket','create','autoupdate_config/autoupdate-config, autoupdate_version/autoupdate-version',1,'{}','','906eebb0-b41e-476b-8dfb-df6170fba46e, 7486a727-d800-43da-a7aa-e903c24e199d','0000000000000000000000000000000000000000000000000000000000000000','2566482d6f002735b513447ef059a99fd2ff58affe84b248172a790dbd0f0d5c');
INSERT INTO "audit" VALUES(2,'2026-11-27T22:05:27.761758005Z','engine','','rollout_started','rollout 1',1,'{"start":"1.0.0","target":"1.1.0","schedule":"regular"}','','','2566482d6f002735b513447ef059a99fd2ff58affe84b248172a790dbd0f0d5c','d065c6985dd4feb475d7c035ed72ab2d99d6ab34bcc29a919e452b57d94fe326');
INSERT INTO "audit" VALUES(3,'2026-11-27T22:05:28.047290254Z','uid 0 (root)','admin socket','import','6 instances',1,'{"new":6,"counts":[{"group":"dev","version":"1.0.0","count":2},{"group":"prod","version":"1.0.0","count":1}],"omitted":[{"count":1,"reason":"agent has no updater"},{"count":1,"reason":"updater is pinning a specific version"},{"count":1,"reason":"updater version does not support agent reports"}],"passed_over":[]}','','','d065c6985dd4feb475d7c035ed72ab2d99d6ab34bcc29a919e452b57d94fe326','391cb3f87295db722032d0816c9b5ee6166ef556abb422dfde3da705e29982a2');
INSERT INTO "audit" VALUES(4,'2026-11-27T22:05:28.074553957Z','uid 0 (root)','admin socket','hold','host 00000000-0000-4000-8000-000000000002',1,'{}','','','391cb3f87295db722032d0816c9b5ee6166ef556abb422dfde3da705e29982a2','b1d82dbdd8af01ab5e47565990901ba5176232e03efeca9c07b59cbca57f4bd3');
INSERT INTO "audit" VALUES(5,'2026-11-27T22:05:28.096084086Z','uid 0 (root)','admin socket','start','group dev',1,'{}','','','b1d82dbdd8af01ab5e47565990901ba5176232e03efeca9c07b59cbca57f4bd3','630a7172f089853764a06a909126a3fda988cf15a48d0c4923cd77e7466e4806');
INSERT INTO "audit" VALUES(6,'2026-11-27T22:05:28.096084086Z','engine','','group_started','group dev',1,'{"reason":"manual_trigger"}','','','630a7172f089853764a06a909126a3fda988cf15a48d0c4923cd77e7466e4806','80cb8e3e3c9e81a58579a2d813509dd1f0e54a5e3ceea1c9036a858976238788');
CREATE TABLE book (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    revision INTEGER NOT NULL DEFAULT 0,
    json     TEXT
) STRICT;
INSERT INTO "book" VALUES(1,6,'{"policy":{"mode":"enabled","strategy":"halt-on-error","window":"PT0S","regular":[{"name":"dev","members":null,"gate":{"opening":{"days":["*"],"hour":0,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":[],"blackout":[],"approval":null,"external":null},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":null},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}},{"name":"prod","members":null,"gate":{"opening":{"days":["*"],"hour":0,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":[],"blackout":[],"approval":null,"external":null},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":null},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}}],"critical":[],"unassigned":"last","ungrouped":null},"target":{"start":"1.0.0","target":"1.1.0","schedule":"regular","mode":"enabled"},"blocked":null,"holds":{"all":false,"groups":[],"released":[]},"author":"uid 0 (root)","rollout":{"id":231538077597903025340807283541830807344,"number":1,"start":"1.0.0","target":"1.1.0","schedule":"regular","mode":"enabled","strategy":"halt-on-error","window":"PT0S","without_windows":false,"unassigned":"last","ungrouped":null,"groups":[{"policy":{"name":"dev","members":null,"gate":{"opening":{"days":["*"],"hour":0,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":[],"blackout":[],"approval":null,"external":null},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":null},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}},"state":"active","start_time":"2026-11-27T22:05:28.095546123Z","done_time":null,"last_update_time":"2026-11-27T22:05:28.095546123Z","last_update_reason":"manual_trigger","initial_count":1,"initial_asking":0,"was_known":true,"present_count":1,"up_to_date_count":0,"canaries":[],"cursor":null,"complete_to":0,"pass_to":10,"strangers":{"cursor":null,"complete_to":0,"pass_to":0},"retry":null,"retry_to":0,"retry_for":[1,false],"counted_to":10,"attempt":1,"attempt_began":1795817127,"halt":null,"is_closed":false,"forced":null,"at_once":false,"digest":0,"approved_digest":null,"gate":null,"rate":null,"let_go_count":1,"tally":{"excluded":3,"updated":0,"failed":0,"timed_out":0,"told":0,"silent":0,"let_go":1,"pending":0,"counted":1,"counted_failed":0,"counted_reported":0,"counted_timed_out":0,"counted_ended":0,"present":1,"up_to_date":0,"asking":0,"known":3,"gone":0,"strangers":0,"ever_let_go":1},"reason":{"code":"update_in_progress","updated":0,"of":1,"since":"2026-11-27T22:05:28.095546123Z","until":null}},{"policy":{"name":"prod","members":null,"gate":{"opening":{"days":["*"],"hour":0,"zone":"UTC"},"wait_hours":0,"soak_hours":0,"requires":[],"blackout":[],"approval":null,"external":null},"pace":{"canaries":0,"max_in_flight":100,"jitter":60,"window":null,"rate":null},"proof":{"timeout_seconds":null,"failure_seconds":0,"max_failed":10,"max_timeout":100,"max_failed_of_ended":50,"min_failed":1,"min_ended":20,"max_silent":10,"on_halt":"stop"}},"state":"unstarted","start_time":null,"done_time":null,"last_update_time":"2026-11-27T22:05:27.76146061Z","last_update_reason":"previous_groups_not_done","initial_count":0,"initial_asking":0,"was_known":true,"present_count":1,"up_to_date_count":0,"canaries":[],"cursor":null,"complete_to":0,"pass_to":0,"strangers":{"cursor":null,"complete_to":0,"pass_to":0},"retry":null,"retry_to":0,"retry_for":[1,false],"counted_to":0,"attempt":1,"attempt_began":1795817127,"halt":null,"is_closed":false,"forced":null,"at_once":false,"digest":0,"approved_digest":null,"gate":null,"rate":null,"let_go_count":0,"tally":{"excluded":1,"updated":0,"failed":0,"timed_out":0,"told":0,"silent":0,"let_go":0,"pending":1,"counted":0,"counted_failed":0,"counted_reported":0,"counted_timed_out":0,"counted_ended":0,"present":1,"up_to_date":0,"asking":0,"known":1,"gone":0,"strangers":0,"ever_let_go":0},"reason":{"code":"previous_groups_not_done","group":"dev","since":"2026-11-27T22:05:27.76146061Z","until":"2026-11-28T00:00:00Z"}}],"start_time":"2026-11-27T22:05:27.76146061Z","last_step":"2026-11-27T22:05:28.095546123Z","clock":{"most_heard":1795817128,"report_interval":900}},"number":1,"last_done":null,"done_before":null,"halted":[],"seed":16578198229169191338,"last_step":"2026-11-27T22:05:28.095546123Z","clock":{"most_heard":1795817128,"report_interval":900}}');
CREATE TABLE candidate (
    host  BLOB PRIMARY KEY NOT NULL CHECK (length(host) = 16),
    key   BLOB NOT NULL CHECK (length(key) = 32),
    since TEXT NOT NULL
) STRICT;
CREATE TABLE enrolled (
    host     BLOB    PRIMARY KEY NOT NULL CHECK (length(host) = 16),
    key      BLOB    NOT NULL CHECK (length(key) = 32),
    sequence INTEGER NOT NULL,
    how      TEXT    NOT NULL,
    since    TEXT    NOT NULL,
    fixed    TEXT,
    change   INTEGER NOT NULL
) STRICT;
CREATE TABLE host (
    id     BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    record TEXT NOT NULL
) STRICT;
INSERT INTO "host" VALUES(X'00000000000040008000000000000001','{"update_id":302240678275694148456449,"declared":"dev","version":"1.0.0","flags":{"pinned":false,"disabled":false,"held":false},"heard":1795817128,"listed":1795817128,"arrival":2,"joined":2,"enrolled":1,"reports":true,"mark":{"rollout":1,"told":1795817128,"started":null,"switched":null,"arrived":null,"lost":null}}');
INSERT INTO "host" VALUES(X'00000000000040008000000000000002','{"update_id":302240678275694148456450,"declared":"dev","version":"1.0.0","flags":{"pinned":false,"disabled":false,"held":true},"heard":1795817128,"listed":1795817128,"arrival":4,"joined":4,"enrolled":3,"reports":true}');
INSERT INTO "host" VALUES(X'00000000000040008000000000000003','{"update_id":302240678275694148456451,"declared":"prod","version":"1.0.0","flags":{"pinned":false,"disabled":false,"held":false},"heard":1795817128,"listed":1795817128,"arrival":5,"joined":5,"enrolled":5,"reports":true}');
INSERT INTO "host" VALUES(X'00000000000040008000000000000004','{"update_id":302240678275694148456452,"declared":"dev","version":"1.0.0","flags":{"pinned":false,"disabled":false,"held":false,"unfit":"no_updater"},"heard":1795817128,"listed":1795817128,"arrival":7,"joined":7,"reports":true}');
INSERT INTO "host" VALUES(X'00000000000040008000000000000005','{"version":"1.0.0","flags":{"pinned":false,"disabled":false,"held":false,"unfit":"silent_updater"},"heard":1795817128,"listed":1795817128,"arrival":8,"joined":8,"reports":false}');
INSERT INTO "host" VALUES(X'00000000000040008000000000000006','{"update_id":302240678275694148456454,"declared":"dev","version":"1.0.0","flags":{"pinned":true,"disabled":false,"held":false},"heard":1795817128,"listed":1795817128,"arrival":10,"joined":10,"reports":true}');
CREATE TABLE host_change (
    host   BLOB    NOT NULL CHECK (length(host) = 16),
    number INTEGER NOT NULL,
    at     TEXT    NOT NULL,
    json   TEXT    NOT NULL,
    PRIMARY KEY (host, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE join_token (
    name    TEXT PRIMARY KEY NOT NULL,
    digest  TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT,
    uses    INTEGER,
    fixed   TEXT
) STRICT;
CREATE TABLE report (
    host BLOB PRIMARY KEY NOT NULL CHECK (length(host) = 16),
    at   TEXT NOT NULL,
    json TEXT NOT NULL
) STRICT;
CREATE TABLE request (
    id      TEXT PRIMARY KEY NOT NULL,
    outcome TEXT    NOT NULL,
    at      INTEGER NOT NULL
) STRICT;
INSERT INTO "request" VALUES('327bee86-63f2-47fe-8a5c-2994eebb7ef0','ccbf181fb4d931f55a2591528ff88ed1f9355b50b43ac35d2706efd247b52d52 {"changed":[{"kind":"autoupdate_config","name":"autoupdate-config","revision":"906eebb0-b41e-476b-8dfb-df6170fba46e","was_there":false,"takes":"new_rollout"},{"kind":"autoupdate_version","name":"autoupdate-version","revision":"7486a727-d800-43da-a7aa-e903c24e199d","was_there":false,"takes":"new_rollout"}],"effects":{"lets_go":0,"goes_down":0,"stops":0,"halted_before":false},"advice":[{"kind":"autoupdate_config","name":"autoupdate-config","line":10,"key":"spec.agents.schedules.regular[0].canary_count","code":"no_canary","what":"no group has canaries: the first hosts that get a bad release are a group","advice":"give the first group canary_count: 2, or up to 5"},{"kind":"autoupdate_config","name":"autoupdate-config","line":11,"key":"spec.agents.schedules.regular[1].max_in_flight","code":"last_group_at_once","what":"all of prod, a last group, update at once: nothing stops a release half-way","advice":"give it max_in_flight, such as 10%"}]}',1795817127);
INSERT INTO "request" VALUES('3c034774-ef35-4e3f-9463-57a3e0843f66','e7987c20128c5ec738f4801e5e0ff4016ac5ddd9ad2908aa24a5e130689959e3 {"new":6,"counts":[{"group":"dev","version":"1.0.0","count":2},{"group":"prod","version":"1.0.0","count":1}],"omitted":[{"count":1,"reason":"agent has no updater"},{"count":1,"reason":"updater is pinning a specific version"},{"count":1,"reason":"updater version does not support agent reports"}],"passed_over":[]}',1795817128);
INSERT INTO "request" VALUES('35498eb6-3ee2-4e85-ac02-81596cbace51','d941fe71869aac2662da0c780012f62f0626713ac5a6371d163208530a788076 null',1795817128);
INSERT INTO "request" VALUES('f7fbbd1c-49ff-4d5d-b681-3c0568378ae2','f87291f20e861395d99b8d48cd884152416a6f4c34200cb0d787ee8c9be34405 {"groups":["dev"],"started":[],"rollout":{"kind":"autoupdate_agent_rollout","version":"v1","metadata":{"name":"autoupdate-agent-rollout"},"spec":{"start_version":"1.0.0","target_version":"1.1.0","schedule":"regular","autoupdate_mode":"enabled","strategy":"halt-on-error"},"status":{"groups":[{"name":"dev","state":"active","start_time":"2026-11-27T22:05:28Z","last_update_time":"2026-11-27T22:05:28Z","last_update_reason":"manual_trigger","config_days":["*"],"config_start_hour":0,"config_wait_hours":0,"config_requires":[],"catch_all":false,"initial_count":1,"present_count":1,"up_to_date_count":0,"pending_count":0,"let_go_count":1,"in_flight_count":1,"updated_count":0,"failed_count":0,"timed_out_count":0,"silent_count":0,"excluded_count":3,"attempt":1,"why":{"code":"update_in_progress","updated":0,"of":1,"since":"2026-11-27T22:05:28Z","until":null,"who":"hosts","advice":{"command":{"mark_done":{"groups":["dev"]}}}}},{"name":"prod","state":"unstarted","start_time":null,"last_update_time":"2026-11-27T22:05:27Z","last_update_reason":"previous_groups_not_done","config_days":["*"],"config_start_hour":0,"config_wait_hours":0,"config_requires":[],"catch_all":true,"initial_count":0,"present_count":1,"up_to_date_count":0,"pending_count":1,"let_go_count":0,"in_flight_count":0,"updated_count":0,"failed_count":0,"timed_out_count":0,"silent_count":0,"excluded_count":1,"attempt":1,"why":{"code":"previous_groups_not_done","group":"dev","since":"2026-11-27T22:05:27Z","until":"2026-11-28T00:00:00Z","who":"hosts","advice":{"command":{"start":{"groups":["prod"],"force":false}}}}}],"start_time":"2026-11-27T22:05:27Z","state":"active"}},"effects":{"lets_go":3,"goes_down":0,"stops":0,"halted_before":false},"holds":{"all":false,"groups":[],"released":[]}}',1795817128);
CREATE TABLE resource (
    kind     TEXT NOT NULL,
    name     TEXT NOT NULL,
    revision TEXT NOT NULL,
    yaml     TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT;
INSERT INTO "resource" VALUES('autoupdate_config','autoupdate-config','906eebb0-b41e-476b-8dfb-df6170fba46e','kind: autoupdate_config
version: v1
metadata:
  name: autoupdate-config
  revision: "906eebb0-b41e-476b-8dfb-df6170fba46e"
spec:
  agents:
    mode: enabled
    strategy: halt-on-error
    schedules:
      regular:
        - name: dev
          days:
            - "*"
          start_hour: 0
        - name: prod
          days:
            - "*"
          start_hour: 0
');
INSERT INTO "resource" VALUES('autoupdate_version','autoupdate-version','7486a727-d800-43da-a7aa-e903c24e199d','kind: autoupdate_version
version: v1
metadata:
  name: autoupdate-version
  revision: "7486a727-d800-43da-a7aa-e903c24e199d"
spec:
  agents:
    start_version: 1.0.0
    target_version: 1.1.0
    schedule: regular
    mode: enabled
');
CREATE TABLE rollout (
    number INTEGER PRIMARY KEY,
    json   TEXT NOT NULL
) STRICT;
CREATE TABLE schema_version (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO "schema_version" VALUES(1,4);
CREATE TABLE store (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    epoch         TEXT    NOT NULL,
    arrivals      INTEGER NOT NULL DEFAULT 0,
    restored_held INTEGER NOT NULL DEFAULT 0,
    head_seq      INTEGER NOT NULL DEFAULT 0,
    head_hash     TEXT    NOT NULL,
    backup_at     TEXT
, is_backup INTEGER NOT NULL DEFAULT 0) STRICT;
INSERT INTO "store" VALUES(1,'6c62f8f1-25f9-4e25-abcc-24e459a998a2',10,0,6,'80cb8e3e3c9e81a58579a2d813509dd1f0e54a5e3ceea1c9036a858976238788',NULL,0);
CREATE TABLE token (
    name    TEXT PRIMARY KEY NOT NULL,
    digest  TEXT NOT NULL,
    role    TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT
) STRICT;
CREATE INDEX request_at ON request (at);
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_not_removed BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_goes_on BEFORE INSERT ON audit WHEN EXISTS (SELECT 1 FROM audit WHERE seq >= NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
COMMIT;
