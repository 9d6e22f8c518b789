module hvae

go 1.26

