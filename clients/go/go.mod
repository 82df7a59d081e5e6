module tidegate.invalid/client

go 1.19
