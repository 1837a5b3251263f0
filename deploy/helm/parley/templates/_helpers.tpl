{{- define "parley.name" -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name .Chart.Name) (contains .Chart.Name .Release.Name) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "parley.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "parley.labels" -}}
{{ include "parley.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* Several pods share no folder: without S3 one pod does everything. */}}
{{- define "parley.isSplit" -}}
{{- if .Values.s3.endpoint }}true{{ end }}
{{- end }}

{{- define "parley.databaseSecret" -}}
{{- if .Values.database.cluster.enabled }}{{ include "parley.name" . }}-database-app{{ else }}{{ .Values.database.secretName | default .Values.secretName }}{{ end }}
{{- end }}

{{- /* Of the owner's login; `direct`: not through the pooler, for migrations. */}}
{{- define "parley.databaseUrl" -}}
{{- if and .root.Values.database.pooler.enabled (not .direct) -}}
- name: DATABASE_USER
  valueFrom:
    secretKeyRef: {name: {{ include "parley.databaseSecret" .root | quote }}, key: username}
- name: DATABASE_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ include "parley.databaseSecret" .root | quote }}, key: password}
- name: DATABASE_URL
  value: postgresql://$(DATABASE_USER):$(DATABASE_PASSWORD)@{{ include "parley.name" .root }}-pooler:5432/parley
- name: DATABASE_DIRECT_URL
  valueFrom:
    secretKeyRef: {name: {{ include "parley.databaseSecret" .root | quote }}, key: uri}
{{- else -}}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ include "parley.databaseSecret" .root | quote }}
      key: {{ ternary "uri" .root.Values.database.secretKey .root.Values.database.cluster.enabled | quote }}
{{- if not .root.Values.database.cluster.enabled }}
# Beside a pooler of your own in transaction mode.
- name: DATABASE_DIRECT_URL
  valueFrom:
    secretKeyRef: {name: {{ include "parley.databaseSecret" .root | quote }}, key: DATABASE_DIRECT_URL, optional: true}
{{- end }}
{{- end }}
{{- end }}

{{- /* A pod: `root`, the `command` of parley, `resources`, whether it has a `port`, whether it is `direct`ly connected. One with a
`clusterAccount` speaks to the cluster's API by it, and keeps no files. */}}
{{- define "parley.pod" -}}
{{- $values := .root.Values }}
{{- /* Migrations run before anything else of the release is there. */}}
{{- if not .direct }}
serviceAccountName: {{ .clusterAccount | default (include "parley.name" .root) }}
{{- end }}
automountServiceAccountToken: {{ not (not .clusterAccount) }}
# A worker hands its turns over within 20 s, and has ended after 27.
terminationGracePeriodSeconds: 40
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with $values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
containers:
  - name: parley
    image: {{ printf "%s:%s" $values.image.repository ($values.image.tag | default .root.Chart.AppVersion) | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    args: {{ toJson .command }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    {{- if not .direct }}
    envFrom:
      - configMapRef: {name: {{ include "parley.name" .root }}}
      - secretRef: {name: {{ $values.secretName | quote }}}
    {{- end }}
    # It goes before what the two above name.
    env: {{- include "parley.databaseUrl" . | nindent 6 }}
    {{- if .port }}
    ports:
      - {name: http, containerPort: 8080}
    startupProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 2
      failureThreshold: 60
    livenessProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 10
      timeoutSeconds: 5
    # It looks at the database and its tables, and answers within 4 s. Messages are stored while no worker is there, which
    # is what brings one back.
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      periodSeconds: 5
      timeoutSeconds: 5
    # Balancers learn that the pod is going before it refuses connections.
    lifecycle:
      preStop:
        exec: {command: [sleep, "5"]}
    {{- end }}
    resources: {{- toYaml .resources | nindent 6 }}
    volumeMounts:
      - {name: home, mountPath: /var/lib/parley}
      - {name: tmp, mountPath: /tmp}
volumes:
  - name: home
    {{- if or (include "parley.isSplit" .root) .direct .clusterAccount }}
    emptyDir: {}
    {{- else }}
    persistentVolumeClaim: {claimName: {{ include "parley.name" .root }}}
    {{- end }}
  - name: tmp
    emptyDir: {}
{{- end }}
