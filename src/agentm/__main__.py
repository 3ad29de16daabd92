from agentm.cli import main

raise SystemExit(main())
