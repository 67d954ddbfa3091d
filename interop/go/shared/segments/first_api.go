//go:build first_api

package segments

// The first releases of zapx 11 to 15 are built with an API that has neither shapes nor synonyms.
const hasShapes = false

func (d *dumper) thesauri() error { return nil }
