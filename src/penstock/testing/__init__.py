"""What tests of jobs and of connectors are made of; ours, PyFlink ships nothing like it.

``sources`` has a source that is a list, ``connector_contexts`` what the engine would hand a connector,
``source_contract`` and ``sink_contract`` the checks that every connector must pass. Nothing here needs pytest.
"""
