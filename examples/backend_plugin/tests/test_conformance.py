from agentm_jsonfile import JsonFileBackend

from agentm.conformance.pytest import BackendConformance


class TestJsonFile(BackendConformance):
    def make_backend(self, tmp_path):
        return JsonFileBackend(str(tmp_path / "memory.json"))
