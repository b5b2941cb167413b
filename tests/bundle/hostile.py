"""Traces that are full of private values, or that attack their reader."""

from __future__ import annotations

import sqlite3
from pathlib import Path

TOKEN = "sesame-7f3a9b-open"
HOME = "/home/alice"
PID, TID = 4242, 4243
GLOBAL_PID = 0x0001_00 << 40 | PID << 24
GLOBAL_TID = GLOBAL_PID | TID
MAIN_TID = GLOBAL_PID | PID


def write_trace(path: Path, *extra_sql: str, text: str = "RUN::math::S1024") -> Path:
    """One kernel, its launch, two ranges, an environment with a token, and then whatever `extra_sql` does."""
    connection = sqlite3.connect(path)
    connection.executescript(
        f"""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        INSERT INTO StringIds VALUES (1, 'void gemm<float>(int)'), (2, 'cudaLaunchKernel_v7000'),
            (3, 'load {HOME}/data/x.bin'), (4, 'SECRET_TOKEN={TOKEN}' || char(0) || 'LANG=C.UTF-8'), (5, 'bash');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, correlationId INT, globalPid INT,
            demangledName INT, shortName INT, ownerNote TEXT);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10, 20, 0, 7, {GLOBAL_PID}, 1, 1, '{TOKEN}');
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT, nameId INT);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5, 6, {GLOBAL_TID}, 7, 2), (7, 8, {MAIN_TID}, 8, 2);
        CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT,
            jsonText TEXT);
        INSERT INTO NVTX_EVENTS VALUES (1, 30, 59, '{text}', {GLOBAL_TID}, NULL, '{TOKEN}');
        INSERT INTO NVTX_EVENTS VALUES (2, 29, 59, NULL, {GLOBAL_TID}, 3, NULL);
        CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT);
        INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, {PID});
        CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, uuid TEXT, busLocation TEXT);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 'GPU-1234', '0000:01:00.0');
        CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
        INSERT INTO META_DATA_CAPTURE VALUES
            ('PROCESS_0:ENVIRONMENT_VARIABLE', 'SECRET_TOKEN="{TOKEN}"'),
            ('PROCESS_0:ENVIRONMENT_VARIABLE', 'HOME="{HOME}"'),
            ('PROCESS_0:ENVIRONMENT_VARIABLE', 'QUOTED="say \\"hi there\\""'),
            ('PROCESS_0:ENVIRONMENT_VARIABLE', 'MODE="flash"'),
            ('PROCESS_0:USER_NAME', 'alice'), ('PROCESS_0:WORKING_DIR', '{HOME}/my project'),
            ('PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Graph'), ('CAPTURE_EVENT_TYPE', 'Cuda');
        CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
        INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.11.1'), ('EXPORT_HOST', 'wonderland-9');
        CREATE TABLE PROCESSES (globalPid INT, pid INT, name TEXT);
        INSERT INTO PROCESSES VALUES ({GLOBAL_PID}, {PID}, '{HOME}/bin/python');
        CREATE TABLE DIAGNOSTIC_EVENT (timestamp INT, text TEXT, globalPid INT);
        INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 'Profiling has started.', {GLOBAL_PID}),
            (1, 'Loaded CUPTI library: {HOME}/lib/libcupti.so', {GLOBAL_PID}),
            (2, 'Something new about {TOKEN}', {GLOBAL_PID});
        """
    )
    for statement in extra_sql:
        connection.executescript(statement)
    connection.commit()
    connection.close()
    return path
