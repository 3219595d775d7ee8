"""Chat templates: the same text as transformers, and no way for a template to do harm."""

import json

import pytest
import tiny_llama

from core.__main__ import main
from core.model import chat_template, template_worker
from core.model.chat_template import ChatTemplate
from core.model.errors import ModelError, ModelFileError
from core.model.tokenizer import Tokenizer

CHATML = tiny_llama.CHAT_TEMPLATE

LLAMA3 = """\
{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\\n\\n" }}{%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'
            + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception("only one tool call at once") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '{"name": "' + call.name + '", "parameters": ' }}
        {{- call.arguments | tojson }}{{- "}" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """\
{{ bos_token }}
{%- set ns = namespace(index=0) %}
{%- for message in messages %}
    {%- if message["role"] not in ["user", "assistant"] %}{% continue %}{% endif %}
    {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
        {{- raise_exception("roles must alternate: user/assistant/user/assistant/...") }}
    {%- endif %}
    {%- set ns.index = ns.index + 1 %}
    {%- if message["role"] == "user" %}
        {{- "[INST] " + message["content"] + " [/INST]" }}
    {%- else %}
        {{- " " + message["content"] + eos_token }}
    {%- endif %}
{%- endfor %}
"""

QWEN25 = """\
{%- macro part(role, text) %}
    {{- "<|im_start|>" ~ role ~ "\\n" ~ text ~ "<|im_end|>\\n" }}
{%- endmacro %}
{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {{- messages[0].content if messages[0].role == 'system' else 'You are a helpful assistant.' }}
    {{- "\\n\\n# Tools\\n<tools>" }}
    {%- for tool in tools %}{{- "\\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- elif messages[0].role != 'system' %}
    {{- part('system', 'You are a helpful assistant.') }}
{%- endif %}
{%- for message in messages %}
    {%- if loop.first and message.role == 'system' and tools %}{% continue %}{% endif %}
    {%- if message.role == 'assistant' %}
        {%- generation %}{{- part('assistant', message.content) }}{%- endgeneration %}
    {%- else %}
        {{- part(message.role, message.content) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""

QWEN3 = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if message.role == "user" and message.content is string %}
        {%- set ns.last = index %}{%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "assistant" and '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\\n') %}
        {%- set thought = thought.split('<think>')[-1].lstrip('\\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- if loop.index0 > ns.last %}
            {%- set content = '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' + content %}
        {%- endif %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""

TEMPLATES = {
    "chatml": CHATML,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "qwen2.5": QWEN25,
    "qwen3": QWEN3,
    "date": "{{ strftime_now('%Y')[:2] }}{{ {'b': '<é>', 'a': [1, none, true]} | tojson }}",
}
CONVERSATIONS = [
    [{"role": "user", "content": "What is 2 < 3? 日本 🙂\n"}],
    [
        {"role": "system", "content": "  Be brief. "},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello & welcome"},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "<think>\nso\n</think>\n\nwell"},
    ],
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "add", "parameters": {"type": "object", "properties": {"é": {}}}},
    }
]


def directory(path, template, **settings):
    """A tokenizer with a template."""
    tiny_llama.byte_level_tokenizer().save(str(path / "tokenizer.json"))
    settings = {
        "bos_token": "<|endoftext|>",
        "eos_token": "<|im_end|>",
        "chat_template": template,
        "tokenizer_class": "PreTrainedTokenizerFast",
        **settings,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(settings))
    return path


@pytest.fixture
def in_process(monkeypatch):
    """Render here: the same code without its process, for templates that do no harm."""
    monkeypatch.setattr(chat_template, "_run", lambda job: template_worker.render(json.loads(job)))


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_text_equals_transformers(tmp_path, in_process, name):
    transformers = pytest.importorskip("transformers")
    path = directory(tmp_path, TEMPLATES[name])
    theirs, ours = transformers.PreTrainedTokenizerFast.from_pretrained(path), Tokenizer(path)
    for messages in CONVERSATIONS:
        for options in ({}, {"tools": TOOLS}, {"enable_thinking": False}):
            for prompt in (True, False):
                wanted = theirs.apply_chat_template(
                    messages, tokenize=False, add_generation_prompt=prompt, **options
                )
                assert ours.apply_chat_template(messages, prompt, **options) == wanted


def test_a_process_of_its_own_gives_the_same(tmp_path, monkeypatch):
    template = ChatTemplate(tmp_path, {"chat_template": LLAMA3, "bos_token": "<s>"})
    for messages in CONVERSATIONS:
        text = template.render(messages, tools=TOOLS)
        with monkeypatch.context() as patch:
            patch.setattr(
                chat_template, "_run", lambda job: template_worker.render(json.loads(job))
            )
            assert template.render(messages, tools=TOOLS) == text
    assert text.startswith("<s><|start_header_id|>")


def test_a_refusal_is_the_templates_own_sentence(tmp_path):
    template = ChatTemplate(tmp_path, {"chat_template": MISTRAL})
    with pytest.raises(ModelError, match="chat template failed: roles must alternate"):
        template.render([{"role": "assistant", "content": "hi"}])


RUNAWAY = {
    "nested loops": "{% for i in range(9**5) %}{% for j in range(9**5) %}{% endfor %}{% endfor %}",
    "range": "{% for i in range(10**9) %}x{% endfor %}",
    "text times a number": "{{ 'x' * 10**10 }}",
    "list times a number": "{{ [0] * 10**10 }}",
    "power": "{{ 9**(9**9) }}",
    "width": "{{ '%09999999999d' % 1 }}",
    "format": "{{ '{:9999999999}'.format(1) }}",
    "centre": "{{ 'x'.center(10**10) }}",
    "indent": "{{ ('x\n' * 1000) | indent(10**8) }}",
    "doubling": "{% set ns = namespace(s='xx') %}{% for i in range(99) %}"
    "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "output": "{% for i in range(99999) %}{{ 'x' * 10000 }}{% endfor %}",
    "recursion": "{% macro m(x) %}{{ m(x) }}{% endmacro %}{{ m(1) }}",
    "deep expression": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep blocks": "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "long sum": "{{ 1" + " + 1" * 50_000 + " }}",
    "bytes": "{{ 'x'.encode('utf-8').hex(10**10) }}",
}
REFUSED = {
    "class": "{{ messages.__class__.__mro__ }}",
    "globals": "{{ raise_exception.__globals__.sys }}",
    "attribute filter": "{{ (messages | attr('__class__')).__mro__ }}",
    "cycler": "{{ cycler.__init__.__globals__.os.system('true') }}",
    "mutation": "{{ messages.append(1) }}",
    "underscore": "{% set ns = namespace(__x=1) %}",
    "include": "{% include '/etc/passwd' %}",
    "import": "{% import 'os' as os %}",
    "syntax": "{% for",
    "division": "{{ 1 / 0 }}",
    "undefined": "{{ messages[0].content.nothing.there }}",
    "nul": "{{ '\\0'.join(5) }}",
}


@pytest.mark.parametrize("name", RUNAWAY)
def test_a_template_without_bounds_is_one_clear_error(tmp_path, monkeypatch, name):
    monkeypatch.setattr(chat_template, "CPU_SECONDS", 1)
    template = ChatTemplate(tmp_path, {"chat_template": RUNAWAY[name]})
    with pytest.raises(ModelError, match="chat template failed") as caught:
        template.render([{"role": "user", "content": "hi"}])
    assert "ran for more than" not in str(caught.value)  # the clock is for those that only wait
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_or_hostile_template_is_one_clear_error(tmp_path, in_process, name):
    template = ChatTemplate(tmp_path, {"chat_template": REFUSED[name]})
    with pytest.raises(ModelError, match="chat template failed") as caught:
        template.render([{"role": "user", "content": "hi"}])
    assert len(str(caught.value)) < 400


def test_a_template_that_waits_is_stopped_by_the_clock(tmp_path, monkeypatch):
    monkeypatch.setattr(chat_template, "CLOCK_SECONDS", 0.5)
    monkeypatch.setattr(chat_template, "CPU_SECONDS", 60)
    template = ChatTemplate(tmp_path, {"chat_template": RUNAWAY["nested loops"]})
    with pytest.raises(ModelError, match=r"ran for more than"):
        template.render([])


def test_neither_environment_nor_directory_reach_the_template(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("raise ImportError('mine')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ChatTemplate(tmp_path, {"chat_template": "{{ 1 | tojson }}"}).render([]) == "1"


def test_messages_that_are_no_json_or_too_long(tmp_path, monkeypatch):
    template = ChatTemplate(tmp_path, {"chat_template": "x"})
    with pytest.raises(ModelError, match="no JSON"):
        template.render([{"role": "user", "content": object()}])
    monkeypatch.setattr(chat_template, "MAX_INPUT_CHARS", 1000)
    with pytest.raises(ModelError, match="longer than 1,000"):
        template.render([{"role": "user", "content": "x" * 1000}])


def test_the_command_encodes_a_chat_with_one_token_at_the_beginning(tmp_path, capsys):
    """A tokenizer that adds a BOS must not add it to a template's own."""
    path = tiny_llama.write_checkpoint(tmp_path / "tiny")
    directory(path, "{{ bos_token }}" + CHATML)
    raw = json.loads((path / "tokenizer.json").read_text())
    bos = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
    raw["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<|endoftext|>": {"id": "<|endoftext|>", "ids": [0], "tokens": ["<|endoftext|>"]}
        },
    }
    (path / "tokenizer.json").write_text(json.dumps(raw))
    tokenizer = Tokenizer(path)
    text = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}])
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert ids[0] == 0 and tokenizer.encode(text)[:2] == [0, 0]
    options = ["--max-tokens", "1", "--dtype", "float32", "--json"]
    assert main(["generate", "hi", "--chat", "--model", str(path), *options]) == 0
    assert json.loads(capsys.readouterr().out)["num_prompt_tokens"] == len(ids)


# -- where templates stand ---------------------------------------------------------------------


def test_no_template(tmp_path):
    for config in ({}, {"chat_template": None}, {"chat_template": 5}, {"chat_template": [5, {}]}):
        with pytest.raises(ModelError, match="no chat template"):
            ChatTemplate(tmp_path, config).render([])


def test_named_templates(tmp_path):
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    template = ChatTemplate(tmp_path, {"chat_template": named})
    assert (template.render([]), template.render([], tools=TOOLS)) == ("d", "t")
    assert ChatTemplate(tmp_path, {"chat_template": named[:1]}).render([], tools=TOOLS) == "d"
    with pytest.raises(ModelError, match="templates tool_use, but none named default"):
        ChatTemplate(tmp_path, {"chat_template": named[1:]}).render([])


def test_files_come_before_the_configuration(tmp_path):
    (tmp_path / "chat_template.jinja").write_text("from a file: {{ bos_token }}")
    more = tmp_path / "additional_chat_templates"
    more.mkdir()
    (more / "tool_use.jinja").write_text("with tools")
    template = ChatTemplate(tmp_path, {"chat_template": "config", "bos_token": "<s>"})
    assert template.render([]) == "from a file: <s>"
    assert template.render([], tools=[]) == "with tools"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * (2 << 20)])
def test_a_file_that_is_no_template(tmp_path, content):
    (tmp_path / "chat_template.jinja").write_bytes(content)
    with pytest.raises(ModelFileError, match=r"chat_template\.jinja"):
        ChatTemplate(tmp_path, {})
