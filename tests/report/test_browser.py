"""The page as a reader has it: opened from disk in a real browser."""

import json
import time

import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.assemble import join_counters, read_record
from nsysprof.report.formats.html import render_html
from nsysprof.report.write import write_analysis
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.builders.training import training
from tests.conftest import REPOSITORY
from tests.report import fixed_results, samples
from tests.report.browser import chromium, complaints, open_page
from tests.report.formats.test_timeline_data import rows

pytestmark = pytest.mark.browser
INJECTED = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"{a|b}${x}"


@pytest.fixture(scope="session")
def page():
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def capture_page(tmp_path_factory):
    """Return the report of a committed capture."""
    folder = tmp_path_factory.mktemp("capture")
    source = REPOSITORY / "traces" / "h200-sdpa"
    analysis = analyze_trace(resolve_input(source, None, folder))
    analysis, record = join_counters(analysis, read_record(source), [], None, foreign=False)
    write_analysis(analysis, record, folder / "out")
    return folder / "out" / "report.html"


def write_page(tmp_path, made, record=None):
    analysis = samples.analysis(tmp_path, made)
    write_analysis(analysis, None if record is None else record(analysis), tmp_path / "out")
    return tmp_path / "out" / "report.html"


def at(page, selector):
    return page.find_element(By.CSS_SELECTOR, selector)


def view(page):
    """Return what the timeline shows, in ns, once it has drawn."""
    WebDriverWait(page, 20).until(lambda _: at(page, "#chart").get_attribute("data-view"))
    settle(page)
    low, high = at(page, "#chart").get_attribute("data-view").split()
    return float(low), float(high)


def settle(page):
    """Wait until the page has drawn what it was last asked for, by its own clock, however busy the machine is.

    The chart waits for up to 100 ms before it zooms by wheel or dragging, and draws in the next frame.
    """
    page.execute_async_script(
        "const done = arguments[0];"
        "setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => done())), 150);"
    )


def wait_for_text(page, selector, words):
    WebDriverWait(page, 20).until(lambda _: words in at(page, selector).text, f"{words} in {selector}")


def width(page):
    low, high = view(page)
    return high - low


def press(page, action):
    at(page, f"[data-do={action}]").click()


def column(page, table, number):
    cells = page.find_elements(By.CSS_SELECTOR, f"#{table} tbody tr:not([hidden]) td:nth-child({number})")
    return [cell.text for cell in cells]


@pytest.mark.parametrize(("size", "dark"), [(1400, False), (390, True)])
def test_it_opens_without_a_complaint_and_loads_nothing(page, capture_page, size, dark):
    open_page(page, capture_page, width=size, dark=dark)
    assert width(page) > 10**9
    assert complaints(page) == []
    assert page.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert page.execute_script("return document.documentElement.scrollWidth") <= size
    shown = [image for image in page.find_elements(By.CSS_SELECTOR, "figure img") if image.is_displayed()]
    assert len(shown) == 3
    assert {image.value_of_css_property("filter") != "none" for image in shown} == {dark}, "CSS turns a figure dark"
    paper = page.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 23, 27)" if dark else "rgb(255, 255, 255)")
    assert page.execute_script("return document.querySelector('#chart canvas').width") > size * 0.6


def violations(page):
    """Return what axe-core has to say against the page."""
    found = Axe().run(page, options={"resultTypes": ["violations"]})["violations"]
    return [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found]


@pytest.mark.parametrize("dark", [False, True])
def test_the_page_of_an_analysis_breaks_no_rule_of_accessibility(page, capture_page, dark):
    open_page(page, capture_page, dark=dark)
    assert width(page) > 10**9
    assert violations(page) == []


@pytest.mark.parametrize(
    "report", [fixed_results.comparison, fixed_results.bench, fixed_results.tune, fixed_results.ranks_page]
)
def test_every_command_has_a_page_that_opens_and_breaks_no_rule(page, tmp_path, report):
    path = tmp_path / "report.html"
    path.write_text(render_html(report()), encoding="utf-8")
    for wide in (1400, 390):
        open_page(page, path, width=wide)
        assert complaints(page) == []
        assert page.execute_script("return document.documentElement.scrollWidth") <= wide
        assert violations(page) == []


def test_a_program_with_steps_opens_with_what_it_does(page, tmp_path):
    open_page(page, write_page(tmp_path, training([5000, *[1000] * 12, 2000])), width=390)
    assert "The GPU is busy for" in at(page, "main").text
    assert at(page, ".bars").get_attribute("aria-label").endswith("slow: step 13")
    assert len(page.find_elements(By.CSS_SELECTOR, ".bars g")) == 14
    assert violations(page) == []
    assert complaints(page) == []


def test_the_policy_stops_what_is_not_the_pages_own(page, capture_page):
    open_page(page, capture_page)
    page.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
        "fetch('https://example.invalid/').catch(() => { window.refused = 1 })"
    )
    WebDriverWait(page, 20).until(lambda _: page.execute_script("return window.refused"))
    assert page.execute_script("return [window.hacked, window.refused]") == [None, 1]
    assert any("Content Security Policy" in text for text in complaints(page))


def test_buttons_zoom_move_and_show_all(page, capture_page):
    open_page(page, capture_page)
    assert view(page)[0] > 0, "it opens where the GPU works"
    press(page, "all")
    whole = view(page)
    press(page, "in")
    press(page, "in")
    near = view(page)
    assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 4)
    press(page, "right")
    assert view(page)[0] > near[0]
    press(page, "left")
    assert view(page)[0] == pytest.approx(near[0])
    press(page, "out")
    assert width(page) == pytest.approx((whole[1] - whole[0]) / 2)
    press(page, "all")
    assert view(page) == pytest.approx(whole)


def test_keys_wheel_and_dragging(page, capture_page):
    open_page(page, capture_page)
    press(page, "all")
    chart = at(page, "#chart")
    whole = width(page)
    ActionChains(page).scroll_to_element(chart).perform()
    ActionChains(page).scroll_from_origin(_origin(chart), 0, -200).perform()
    assert width(page) == whole, "a page that is scrolled past keeps its wheel"
    ActionChains(page).move_to_element(chart).click().perform()
    chart.send_keys("++")
    assert width(page) == pytest.approx(whole / 4)
    before = view(page)
    chart.send_keys(Keys.ARROW_RIGHT)
    assert view(page)[0] > before[0]
    ActionChains(page).scroll_from_origin(_origin(chart), 0, -300).perform()
    assert width(page) < whole / 4
    before = view(page)
    ActionChains(page).drag_and_drop_by_offset(chart, -200, 0).perform()
    assert view(page)[0] > before[0]
    chart.send_keys("0")
    assert width(page) == pytest.approx(whole)


def _origin(element):
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    return ScrollOrigin.from_element(element)


def test_going_to_a_range_and_reading_a_kernel(page, capture_page):
    open_page(page, capture_page)
    Select(at(page, "#places")).select_by_visible_text("RUN::flash::S4096")
    assert width(page) == pytest.approx(1.06 * 1_212_000, rel=0.05)
    field = at(page, "#search")
    field.send_keys("FLASH_FWD")
    assert at(page, "#found").text.endswith(" found")
    field.send_keys(Keys.ENTER)
    assert at(page, "#found").text == "75 of 84", "the first one in view"
    assert at(page, "#instance").text.startswith("1 of 2: RUN::flash::S4096, ")
    told = at(page, "#told").text
    assert "flash_fwd" in told and " us at " in told and "stream 7" in told
    press(page, "next")
    assert at(page, "#found").text == "76 of 84"
    press(page, "previous")
    assert at(page, "#told").text == told
    field.clear()
    field.send_keys("no such kernel")
    assert at(page, "#found").text == "0 found"
    assert complaints(page) == []


def test_pointing_at_a_rectangle_tells_its_name(page, tmp_path):
    made = samples.builder(kernel=INJECTED)
    open_page(page, write_page(tmp_path, made))
    field = at(page, "#search")
    field.send_keys("window.hacked", Keys.ENTER)
    page.execute_script("document.getElementById('told').textContent = ''")
    chart = at(page, "#chart")
    ActionChains(page).scroll_to_element(chart).perform()
    data = json.loads(at(page, "#timeline-data").get_attribute("textContent"))
    stream = rows(data, data["lanes"][-1])
    start, low, high = stream[20][0] - data["originNs"], *view(page)  # the first of flash, after the 20 of math
    plot = chart.size["width"] - 150 - 24
    across = 150 + plot * (start + 25 - low) / (high - low) - chart.size["width"] / 2
    down = 6 + (len(data["lanes"]) - 0.5) * 20 + 2 - chart.size["height"] / 2
    ActionChains(page).move_to_element_with_offset(chart, int(across), int(down)).perform()
    wait_for_text(page, "#told", INJECTED)
    tip = at(page, "#tip").text.split("\n")
    assert INJECTED in tip[0] and "stream 7" in tip[1] and tip[2].endswith("after its call, cudaLaunchKernel, began")
    assert at(page, "#chart").get_attribute("data-arrows") == "1"


def lanes(page):
    return at(page, "#chart").get_attribute("data-lanes").split("|")


def box(page, name):
    return at(page, f'[aria-label="{name}"]')


def test_lanes_of_the_device_stand_first_and_lanes_grow_fold_hide_and_pin(page, tmp_path):
    made = training([1000] * 12)
    made.range(10_100, 10_900, "inner")
    open_page(page, write_page(tmp_path, made))
    view(page)
    assert lanes(page)[:2] == ["GPU idle", "GPU busy"]
    at(page, "details.lanes summary").click()
    box(page, "pin: stream 7").click()
    assert lanes(page)[0] == "stream 7"
    box(page, "show: GPU idle").click()
    assert "GPU idle" not in lanes(page)
    levels = [name for name in lanes(page) if name.endswith("ranges")]
    box(page, f"fold: {levels[0]}").click()
    assert lanes(page).count(levels[0]) == 1 < levels.count(levels[0])
    before = at(page, "#chart").size["height"]
    press(page, "taller")
    settle(page)
    assert at(page, "#chart").size["height"] > before
    press(page, "lower")
    settle(page)
    assert at(page, "#chart").size["height"] == before
    press(page, "full")
    settle(page)
    assert at(page, "#timeline-part").size["height"] >= 1000
    assert at(page, "[data-do=full]").get_attribute("aria-pressed") == "true"
    assert violations(page) == []
    at(page, "#chart").send_keys(Keys.ESCAPE)
    assert at(page, "[data-do=full]").get_attribute("aria-pressed") == "false"
    assert complaints(page) == []


def test_figures_fit_a_phone_and_a_touch_enlarges_them(page, capture_page):
    open_page(page, capture_page, width=390)
    figure = at(page, "figure")
    image = at(page, "figure img")
    assert image.size["width"] <= 390
    ActionChains(page).scroll_to_element(figure).move_to_element(figure).click().perform()
    assert image.size["width"] > 600
    assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    figure.send_keys(Keys.ENTER)
    assert image.size["width"] <= 390


def test_w_a_s_and_d_move_as_in_perfetto(page, capture_page):
    open_page(page, capture_page)
    whole, chart = width(page), at(page, "#chart")
    chart.send_keys("ww")
    assert width(page) == pytest.approx(whole / 4)
    before = view(page)
    chart.send_keys("d")
    assert view(page)[0] > before[0]
    chart.send_keys("a")
    assert view(page)[0] == pytest.approx(before[0])
    chart.send_keys("s")
    assert width(page) == pytest.approx(whole / 2)


def test_hostile_names_stay_text(page, tmp_path):
    made = samples.builder(kernel=INJECTED)
    made.range(0, 5000, INJECTED)
    open_page(page, write_page(tmp_path, made, samples.record))
    assert complaints(page) == []
    assert page.execute_script("return window.hacked") is None
    assert len(page.find_elements(By.CSS_SELECTOR, "img:not([src^='data:image/png'])")) == 0
    assert any(INJECTED in text for text in column(page, "ranges-rows", 1))
    options = [option.text for option in Select(at(page, "#places")).options]
    assert INJECTED.replace("window.hacked=1</script>", "") not in options  # cut in the middle, and text all the same
    assert any("</script><script>" in option for option in options)
    at(page, "#search").send_keys(INJECTED, Keys.ENTER)
    assert INJECTED in at(page, "#told").text


def test_tables_sort_by_value_and_filter(page, capture_page):
    open_page(page, capture_page)

    def find_totals(_):
        headers = page.find_elements(By.CSS_SELECTOR, "#ranges-rows th")
        return [header for header in headers if header.text == "GPU total"]

    totals = WebDriverWait(page, 20).until(find_totals)
    totals[0].click()
    settle(page)
    shown = column(page, "ranges-rows", 5)
    assert shown[:3] == ["27.87 ms", "7.198 ms", "2.552 ms"]
    totals[0].send_keys(Keys.ENTER)
    settle(page)
    assert column(page, "ranges-rows", 5)[0] == "0 ns"
    assert column(page, "ranges-rows", 5)[-1] == "27.87 ms"
    assert totals[0].get_attribute("aria-sort") == "ascending"
    field = at(page, "input[data-filter=ranges-rows]")
    field.send_keys("flash s2048")
    assert column(page, "ranges-rows", 1) == ["RUN::flash::S2048 ↗"]
    assert field.find_element(By.XPATH, "../../span").text == "1 of 16"
    field.clear()
    field.send_keys(Keys.SPACE)
    assert len(column(page, "ranges-rows", 1)) == 16
    assert complaints(page) == []


def test_the_theme_can_be_changed_by_hand(page, capture_page):
    open_page(page, capture_page)
    at(page, "#theme").click()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    at(page, "#theme").click()
    assert page.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert complaints(page) == []


def test_without_scripts_everything_is_there_but_the_controls(page, capture_page):
    open_page(page, capture_page, scripts=False)
    body = at(page, "body").text
    for text in ("are the fastest", "among the fastest", "Top kernels", "Coverage: 1,582 kernels", "Environment"):
        assert text in body
    assert len([image for image in page.find_elements(By.CSS_SELECTOR, "figure img") if image.is_displayed()]) == 3
    assert not any(each.is_displayed() for each in page.find_elements(By.CSS_SELECTOR, "input, select, button, #chart"))


def test_on_paper_there_are_no_controls(page, capture_page):
    open_page(page, capture_page, media="print")
    assert not any(each.is_displayed() for each in page.find_elements(By.CSS_SELECTOR, "input, select, button, #chart"))
    assert at(page, "#ranges-rows").is_displayed()


def test_a_large_trace_stays_small_and_quick(page, tmp_path):
    made = samples.builder()
    for number in range(40_000):
        made.launch(100_000 + number * 300, 5000 + number, name=f"kernel_{number % 50}")
    path = write_page(tmp_path, made)
    assert path.stat().st_size < 4_000_000
    open_page(page, path)
    assert width(page) > 10**7
    assert at(page, "#detail").text.startswith("All 80,")
    at(page, "#search").send_keys("kernel_7(")
    assert at(page, "#found").text == "800 found"
    at(page, "#search").clear()
    assert int(at(page, "#chart").get_attribute("data-items")) < 8 * 1400
    begin = time.monotonic()
    page.execute_script("for (let i = 0; i < 10; i++) document.querySelector('[data-do=in]').click()")
    view(page)
    assert time.monotonic() - begin < 15, "on a busy machine too"
    Select(at(page, "#places")).select_by_visible_text("RUN::math::S1024")
    assert width(page) < 10_000
    assert complaints(page) == []


def test_a_trace_beyond_the_limit_has_slices_and_counts_what_is_not_there(page, tmp_path, monkeypatch):
    monkeypatch.setattr("nsysprof.report.formats.timeline_data.MOST_ROWS", 100)
    monkeypatch.setattr("nsysprof.report.formats.timeline_data.MOST_CHOSEN_ROWS", 100)
    made = samples.builder()
    for number in range(500):
        made.launch(100_000 + number * 300, 5000 + number, name="later")
    open_page(page, write_page(tmp_path, made))
    assert width(page) > 10**5
    assert at(page, "#detail").text.startswith("How busy each slice of time was")
    at(page, "#search").send_keys("later")
    assert at(page, "#found").text.startswith("500 found; ")
    Select(at(page, "#places")).select_by_visible_text("RUN::math::S1024")
    assert width(page) < 10_000
    assert at(page, "#detail").text == "Every row of this stretch."
    assert complaints(page) == []


def test_steps_are_gone_through_and_summed(page, tmp_path):
    open_page(page, write_page(tmp_path, training([5000, *[1000] * 12])))
    assert view(page) == (pytest.approx(4950), pytest.approx(6050)), "it opens at a typical step"
    wait_for_text(page, "#sums", "the GPU busy for 1")
    Select(at(page, "#places")).select_by_visible_text("step#")
    assert at(page, "#instance").text == "2 of 13: step1, 1.000 us"
    press(page, "later")
    assert at(page, "#instance").text == "3 of 13: step2, 1.000 us"
    at(page, "#chart").send_keys("[[")
    assert at(page, "#instance").text == "1 of 13: step0, 5.000 us"
    page.find_elements(By.CSS_SELECTOR, ".bars [data-span]")[7].click()
    assert view(page) == (pytest.approx(11_000), pytest.approx(12_000))


def test_from_a_table_to_the_timeline_and_back(page, tmp_path):
    made = training([5000, *[1000] * 12])
    made.range(14_000, 14_500, "forward")
    open_page(page, write_page(tmp_path, made))
    whole = width(page)
    at(page, "[aria-label='Show step# in the timeline']").click()
    assert width(page) == pytest.approx(1060)
    at(page, "[aria-label='Show sgemm in the timeline']").click()
    assert width(page) <= whole
    assert at(page, "#found").text.endswith(" of 13")
    assert at(page, "#told").text.startswith("sgemm(int): 100 ns")
    at(page, "#to-table").click()
    assert page.switch_to.active_element.get_attribute("aria-label") == "Show sgemm in the timeline"
    assert at(page, "tr.chosen").text.startswith("sgemm")
    assert complaints(page) == []


def test_a_range_lights_its_work_and_a_marked_stretch_is_summed(page, tmp_path):
    made = training([1000] * 12)
    open_page(page, write_page(tmp_path, made))
    view(page)
    chart = at(page, "#chart")
    ActionChains(page).scroll_to_element(chart).perform()
    down = int(6 + 40 + 10 - chart.size["height"] / 2)  # below the two lanes of the GPU
    ActionChains(page).move_to_element_with_offset(chart, 0, down).click().perform()
    assert "launched 2 kernels (200 ns)" in at(page, "#told").text
    chart.send_keys(Keys.ESCAPE)
    drag = ActionChains(page).key_down(Keys.SHIFT).move_to_element_with_offset(chart, -200, down).click_and_hold()
    drag.move_by_offset(300, 0).release().key_up(Keys.SHIFT).perform()
    wait_for_text(page, "#sums", "Marked: ")
    assert complaints(page) == []


def test_a_collective_is_lit_on_all_ranks_and_says_who_came_last(page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_html(fixed_results.ranks_page()), encoding="utf-8")
    open_page(page, path)
    assert view(page) == (0, 200_000_000)
    Select(at(page, "#places")).select_by_index(1)
    assert "rank 0 came first and rank 1 last, 14.00 ms later, of 2 ranks" in at(page, "#told").text
    low, high = view(page)
    assert high - low < 20_000_000
    press(page, "later")
    assert at(page, "#instance").text.startswith("2 of 2: AllReduce")
    assert "slices" in at(page, "#detail").text
    assert complaints(page) == []
