from nsysprof.api.frames import read_calls as read_calls
from nsysprof.api.frames import read_copies as read_copies
from nsysprof.api.frames import read_fills as read_fills
from nsysprof.api.frames import read_kernels as read_kernels
from nsysprof.api.frames import read_memory as read_memory
from nsysprof.api.frames import read_ranges as read_ranges
from nsysprof.api.open import open_trace as open_trace
from nsysprof.api.policy import PolicyWarning as PolicyWarning
from nsysprof.api.policy import policy as policy
from nsysprof.api.summary import summarize as summarize
from nsysprof.api.use_cases import analyze as analyze
from nsysprof.api.use_cases import bench as bench
from nsysprof.api.use_cases import compare as compare
from nsysprof.api.use_cases import export_trace as export_trace
from nsysprof.api.use_cases import tune as tune
from nsysprof.api.use_cases import write_bundle as write_bundle
from nsysprof.app.inputs.grid import Grid as Grid
from nsysprof.app.progress import Progress as Progress
from nsysprof.errors import NsysprofError as NsysprofError
from nsysprof.results.analysis import Analysis as Analysis
from nsysprof.trace.open import Trace as Trace

__version__: str
