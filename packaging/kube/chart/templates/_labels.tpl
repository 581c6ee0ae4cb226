{{- define "labels" -}}
app.kubernetes.io/name: teleport-kube-update
app.kubernetes.io/instance: {{ .Values.name }}
{{- end }}
