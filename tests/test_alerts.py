"""The alert rules for Prometheus: each fires when it should, and does not when a gauge merely falls."""

import subprocess
from pathlib import Path

RULES = Path(__file__).resolve().parents[1] / "docs" / "monitoring" / "alerts.yml"
# 31 values, one a minute: a reply fails in the 20th, and in another test old replies are removed.
SCENES = """
rule_files: [{rules}]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: parley_outbox_failed
        values: "3x20 4x20"
      - series: parley_outbox_oldest_seconds{{adapter="slack"}}
        values: "0x10 60+60x20"
      - series: parley_outbox_oldest_seconds{{adapter="discord"}}
        values: "0x40"
    alert_rule_test:
      - {{eval_time: 19m, alertname: ParleyRepliesFail, exp_alerts: []}}
      - eval_time: 25m
        alertname: ParleyRepliesFail
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations:
              summary: Replies could not be delivered.
              remedy: "`parley psql -c \\"SELECT id, adapter, error FROM outbox WHERE status = 'failed'\\"` tells why."
      - {{eval_time: 10m, alertname: ParleyRepliesPileUp, exp_alerts: []}}
      - eval_time: 15m
        alertname: ParleyRepliesPileUp
        exp_alerts:
          - exp_labels: {{severity: critical, adapter: slack}}
            exp_annotations:
              summary: Replies wait for slack, the oldest for 5m 0s.
              remedy: >-
                They are sent when it is back, for up to DELIVERY_HOURS; `parley doctor` and `delivery_failed` in the
                log name the cause.
  - interval: 1m
    input_series:
      - series: parley_outbox_failed
        values: "9x20 2x20"
    alert_rule_test:
      - {{eval_time: 21m, alertname: ParleyRepliesFail, exp_alerts: []}}
      - {{eval_time: 30m, alertname: ParleyRepliesFail, exp_alerts: []}}
  - interval: 1m
    input_series:
      - series: parley_database_failovers
        values: "1x70 2x70"
    alert_rule_test:
      - {{eval_time: 70m, alertname: ParleyDatabaseFailedOver, exp_alerts: []}}
      - eval_time: 72m
        alertname: ParleyDatabaseFailedOver
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations:
              summary: The database was failed over.
              remedy: "`parley doctor` and `database_failed_over` in the log say what may be lost."
  - interval: 1m
    input_series:
      - series: parley_inbox_oldest_seconds
        values: "0x5 30+60x10"
      - series: parley_worker_ready
        values: "1x5 0x10"
    alert_rule_test:
      - {{eval_time: 5m, alertname: ParleyHasNoWorker, exp_alerts: []}}
      - eval_time: 8m
        alertname: ParleyHasNoWorker
        exp_alerts:
          - exp_labels: {{severity: critical}}
            exp_annotations:
              summary: No worker runs, so that messages are stored and not answered.
              remedy: Start one with `parley worker`; `/readyz` says what is missing.
  - interval: 1m
    input_series:
      - series: parley_workers
        values: "2 1x3 2x5 1x10"
      - series: parley_workers_configured
        values: "2x20"
    alert_rule_test:
      - {{eval_time: 8m, alertname: ParleyLacksWorkers, exp_alerts: []}}
      - eval_time: 18m
        alertname: ParleyLacksWorkers
        exp_alerts:
          - exp_labels: {{severity: warning}}
            exp_annotations:
              summary: Of the workers that `parley run` starts some do not run.
              remedy: It starts them again with growing pauses; `worker_ended` in its log names the cause.
"""


def test_the_rules_fire_when_they_should_and_not_when_old_replies_are_removed(tmp_path: Path) -> None:
    scenes = tmp_path / "alerts_test.yml"
    scenes.write_text(SCENES.format(rules=RULES), "utf-8")

    result = subprocess.run(["promtool", "test", "rules", str(scenes)], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stdout + result.stderr
