from nsysprof.environment import collect_host, throttle_names


def test_host_facts_name_no_host_and_no_user():
    facts = collect_host()
    assert facts["cpu_count"] >= 1
    assert not {"host", "hostname", "user", "cwd"} & set(facts)


def test_throttle_mask_names_every_bit():
    assert throttle_names(0) == []
    assert throttle_names(0x1 | 0x40) == ["gpu_idle", "hw_thermal_slowdown"]
    assert throttle_names(0x8000) == ["unknown_0x8000"]
