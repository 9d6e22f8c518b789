package table

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"hvae/mnist/run"
)

// The validation ELBO increases until the best epoch, stays the same for one epoch, and then drops to −10.
// The epoch after the best must not become the best, although it has the same ELBO.
func TestTrainingEndsPatienceEpochsAfterTheBest(t *testing.T) {
	const patience = 2
	table := Table{Out: t.TempDir(), Protocol: run.Protocol{MaxEpochs: 100, Patience: patience}, Rows: []string{"vae"}, Seeds: []uint64{1}}
	k := plan(table.Rows, table.Seeds)[0]
	name := filepath.Join(table.Out, k.Run, run.MetricsFile)
	if err := os.Mkdir(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	for best := 1; best <= 5; best++ {
		var lines string
		for epoch := 1; epoch <= best+patience; epoch++ {
			elbo := -10.0 + float64(epoch)
			if epoch == best+1 {
				elbo = -10.0 + float64(best)
			} else if epoch > best {
				elbo = -10
			}
			lines += fmt.Sprintf(`{"epoch":%d,"train_elbo":-1,"val_elbo":%v,"seconds":1}`+"\n", epoch, elbo)
			if err := os.WriteFile(name, []byte(lines), 0o644); err != nil {
				t.Fatal(err)
			}
			s, err := table.status(k)
			if err != nil || s.best.Epoch != min(best, epoch) || s.trained != (epoch == best+patience) {
				t.Errorf("after epoch %d, the best epoch is %d; status returns the best epoch %d, trained %v, %v", epoch, min(best, epoch), s.best.Epoch, s.trained, err)
			}
		}
	}
}
