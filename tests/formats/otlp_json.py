#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""otlp_json.py FOLDER FILE: a request of OpenTelemetry's profiles signal as JSON, by the module that protoc made of otlp.proto in
the folder. It fails where the file has a field that the definition lacks."""
import pathlib
import sys

from google.protobuf import json_format, text_format

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import otlp_pb2  # pylint: disable=wrong-import-position,import-error

request = otlp_pb2.Request()
request.ParseFromString(pathlib.Path(sys.argv[2]).read_bytes())
lines = text_format.MessageToString(request, print_unknown_fields=True).splitlines()
unknown = [line for line in lines if line.strip()[:1].isdigit()]
if unknown:
    sys.exit(f"unknown fields: {unknown[:3]}")
print(json_format.MessageToJson(request, preserving_proto_field_name=True))
