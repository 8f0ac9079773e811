allocsnap show pooled.snap | sed -n "/^metadata/,/^traced/p; /^probes/,\$p"; allocsnap show pooled.snap --json | grep -o "\"probes\":.*\]"
