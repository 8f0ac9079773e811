allocsnap fleet index fleet >/dev/null 2>&1
allocsnap fleet report --baseline label.version=1.3 --candidate label.version=1.4 -o - | python3 -c "
import base64, gzip, json, re, sys
data = re.search(r\"id=.data.[^>]*>([A-Za-z0-9+/=]+)<\", sys.stdin.read()).group(1)
report = json.loads(gzip.decompress(base64.b64decode(data)))
for name, value in report.items():
    for part in value if name == \"snapshots\" else [value]:
        print(name, json.dumps(part, ensure_ascii=False))"
