{{- define "quinque.labels" -}}
app.kubernetes.io/name: quinque
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quinque.isEmbedded" -}}
{{- if and (eq .Values.store "embedded") (not .Values.storeSecret) }}yes{{ end }}
{{- end }}

{{- define "quinque.pod" -}}
metadata:
  labels:
    {{- include "quinque.labels" . | nindent 4 }}
  annotations:
    prometheus.io/scrape: "true"
    prometheus.io/port: "9477"
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  containers:
    - name: broker
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      env:
        - {name: QUINQUE_DIR, value: /data}
        {{- if not (include "quinque.isEmbedded" .) }}
        - name: POD_IP
          valueFrom: {fieldRef: {fieldPath: status.podIP}}
        - name: QUINQUE_ANNOUNCE
          value: "[$(POD_IP)]:4777"  # an IPv6 address needs the brackets, IPv4 allows them
        - name: QUINQUE_STORE
          {{- if .Values.storeSecret }}
          valueFrom: {secretKeyRef: {name: {{ .Values.storeSecret | quote }}, key: store}}
          {{- else }}
          value: {{ .Values.store | quote }}
          {{- end }}
        {{- end }}
        {{- if .Values.passwordSecret }}
        - name: QUINQUE_REQUIREPASS_FILE
          value: /run/secrets/quinque/password
        {{- end }}
        {{- if .Values.usersSecret }}
        - {name: QUINQUE_USERS, value: /run/secrets/quinque-users/users.toml}
        {{- end }}
        {{- if .Values.tlsSecret }}
        - {name: QUINQUE_LISTEN, value: ""}
        - {name: QUINQUE_TLS_LISTEN, value: ":4777"}
        - {name: QUINQUE_TLS_CERT, value: /run/secrets/quinque-tls/tls.crt}
        - {name: QUINQUE_TLS_KEY, value: /run/secrets/quinque-tls/tls.key}
        {{- end }}
        {{- range $name, $value := .Values.settings }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      ports:
        - {name: resp, containerPort: 4777}
        - {name: http, containerPort: 9477}
      startupProbe:
        httpGet: {path: /livez, port: http}
        periodSeconds: 5
        failureThreshold: 120  # 10 minutes to read the journal
      livenessProbe:
        httpGet: {path: /livez, port: http}
        timeoutSeconds: 10
      readinessProbe:
        httpGet: {path: /readyz, port: http}
        timeoutSeconds: 5
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      volumeMounts:
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        {{- if .Values.passwordSecret }}
        - {name: password, mountPath: /run/secrets/quinque, readOnly: true}
        {{- end }}
        {{- if .Values.usersSecret }}
        - {name: users, mountPath: /run/secrets/quinque-users, readOnly: true}
        {{- end }}
        {{- if .Values.tlsSecret }}
        - {name: tls, mountPath: /run/secrets/quinque-tls, readOnly: true}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {}
    {{- if not (include "quinque.isEmbedded" .) }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- if .Values.passwordSecret }}
    - name: password
      secret: {secretName: {{ .Values.passwordSecret | quote }}}
    {{- end }}
    {{- if .Values.usersSecret }}
    - name: users
      secret: {secretName: {{ .Values.usersSecret | quote }}}
    {{- end }}
    {{- if .Values.tlsSecret }}
    - name: tls
      secret: {secretName: {{ .Values.tlsSecret | quote }}}
    {{- end }}
{{- end }}
