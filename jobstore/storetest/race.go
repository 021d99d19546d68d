package storetest

func raceTests() []test { return nil }
