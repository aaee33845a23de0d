"""Lints and renders a chart with Helm's own library, and says as JSON what came out.

Usage: PYTHONPATH=<where make helm put the library> python3 render.py CHART RELEASE NAMESPACE < values.yaml
"""

import json
import sys

from helm_python import chart
from helm_python.errors import HelmError


def main() -> None:
    folder, release, namespace = sys.argv[1:4]
    answer: dict = {"lint": [], "error": None, "manifests": {}}
    try:
        values = chart.values_from_yaml(sys.stdin.read())
        answer["lint"] = chart.lint(folder, values, strict=True, namespace=namespace)["messages"]
        with chart.Chart.load(folder) as loaded:
            loaded.validate_schema(values)
            answer["manifests"] = loaded.render(values, name=release, namespace=namespace, is_install=True)
    except HelmError as error:
        answer["error"] = str(error)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
