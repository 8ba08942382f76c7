from mere.cli import main

main()
