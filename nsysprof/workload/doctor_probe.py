"""Print what torch can do here as one JSON line, or launch some kernels to be recorded; `doctor` runs this.

Run as `python -m nsysprof.workload.doctor_probe [LAUNCHES]`, in a process of its own, because torch may fail to load.
"""

from __future__ import annotations

import json
import sys

import torch


def main(arguments: list[str]) -> int:
    usable = torch.cuda.is_available()
    if arguments:
        if usable:
            values = torch.zeros(1 << 20, device="cuda")
            torch.cuda.synchronize()
            for _ in range(int(arguments[0])):
                values.add_(1)
            torch.cuda.synchronize()
        return 0
    facts: dict[str, object] = {
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "cuda_available": usable,
        "architectures": torch.cuda.get_arch_list() if torch.version.cuda else [],
        "gpu": None,
        "capability": None,
        "cudnn": torch.backends.cudnn.version() if usable else None,
    }
    if usable:
        properties = torch.cuda.get_device_properties(0)
        facts |= {"gpu": properties.name, "capability": f"sm_{properties.major}{properties.minor}"}
    sys.stdout.write(json.dumps(facts) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
