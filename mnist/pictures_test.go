package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"hvae/ad"
	"hvae/hvae"
	"hvae/linalg"
	"hvae/linalg/random"
	"hvae/mnist/data"
	"hvae/mnist/model"
)

// savedModel writes a model with large weights and step sizes, so that images differ between digits
// and between steps. It returns the name of the file and the model.
func savedModel(t *testing.T, config model.Config) (string, model.Checkpoint) {
	t.Helper()
	params := model.NewParams[float32](config, -1, 5)
	for _, p := range params {
		linalg.Scale(p.Value, 3, p.Value)
		if p.Name == "flow.step_size_logit" {
			p.Value.Fill(3)
		}
	}
	c := model.Checkpoint{Config: config, Params: params, Seed: 1, Epoch: 1}
	name := filepath.Join(t.TempDir(), modelFile)
	write(t, c.File().Encode(), name)
	return name, c
}

var drawnModels = []model.Config{
	{Kind: "vae", Tempering: "none", Latent: 3},
	{Kind: "hvae", K: 2, Tempering: "free", Latent: 3},
}

// picture runs a command and decodes the picture that it writes.
func picture(t *testing.T, args ...string) *image.Gray {
	t.Helper()
	name := filepath.Join(t.TempDir(), "picture.png")
	if stdout, stderr := mustRun(t, append(args, "-o", name)...); stdout != "" || !strings.Contains(stderr, "wrote "+name) {
		t.Fatalf("%v: stdout %q, stderr %q", args, stdout, stderr)
	}
	p, err := png.Decode(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	gray, ok := p.(*image.Gray)
	if !ok {
		t.Fatalf("the picture is a %T, want an *image.Gray", p)
	}
	return gray
}

// shows reports whether p shows image n of x upright with its top left corner at (x0, y0). Each pixel of the
// image must be a square of 2×2 pixels, from black for 0 to white for 1, rounded to a grey level.
func shows(p *image.Gray, x0, y0 int, x linalg.Matrix[float32], n int) bool {
	for row := range 28 {
		for column := range 28 {
			want := 255 * float64(x.At(28*row+column, n))
			for i := range 4 {
				if got := float64(p.GrayAt(x0+2*column+i%2, y0+2*row+i/2).Y); !(math.Abs(got-want) <= 0.51) {
					return false
				}
			}
		}
	}
	return true
}

// whiteBut reports whether a picture is white outside the given rectangles.
func whiteBut(p *image.Gray, drawn []image.Rectangle) bool {
	for y := range p.Bounds().Dy() {
	pixel:
		for x := range p.Bounds().Dx() {
			for _, r := range drawn {
				if image.Pt(x, y).In(r) {
					continue pixel
				}
			}
			if p.GrayAt(x, y) != (color.Gray{Y: 255}) {
				return false
			}
		}
	}
	return true
}

// decode returns the pixel probabilities [784×n] of latent variables z [ℓ×n].
func decode(c model.Checkpoint, z linalg.Matrix[float32]) linalg.Matrix[float32] {
	var t ad.Tape[float32]
	network := model.NewNetwork(c.Config, model.Vars(t.Const, c.Params))
	return ad.Sigmoid(network.Decode(t.Const(z))).Value.Clone()
}

func TestSamplesAreDecodedNormalDraws(t *testing.T) {
	for _, config := range drawnModels {
		name, c := savedModel(t, config)
		for _, s := range []struct {
			n, columns, rows int
			seed             uint64
		}{{10, 4, 3, 1}, {10, 4, 3, 7}, {1, 1, 1, 1}, {16, 4, 4, 1}} {
			p := picture(t, "sample", "-checkpoint", name, "-n", strconv.Itoa(s.n), "-seed", strconv.FormatUint(s.seed, 10))
			if want := image.Rect(0, 0, 16+56*s.columns+4*(s.columns-1), 16+56*s.rows+4*(s.rows-1)); p.Bounds() != want {
				t.Fatalf("%d digits: the picture has the bounds %v, want %v", s.n, p.Bounds(), want)
			}
			z := linalg.New[float32](3, s.n)
			random.FillNormal(random.Stream(s.seed, "mnist sample"), z)
			x := decode(c, z)
			var drawn []image.Rectangle
			for i := range s.n {
				at := image.Pt(8+60*(i%s.columns), 8+60*(i/s.columns))
				drawn = append(drawn, image.Rectangle{at, at.Add(image.Pt(56, 56))})
				for j := range s.n {
					if shows(p, at.X, at.Y, x, j) != (i == j) {
						t.Errorf("%v, seed %d: at %v, digit %d is drawn: %v, want %v", config, s.seed, at, j, j != i, j == i)
					}
				}
			}
			if !whiteBut(p, drawn) {
				t.Errorf("%v: the picture is not white outside the %d digits", config, s.n)
			}
		}
	}
}

func TestReconstructionsFollowTheFlow(t *testing.T) {
	test := digits(t).Test
	for _, config := range drawnModels {
		name, c := savedModel(t, config)
		captions, across, pitch := []string{"input", "mean", "draw"}, 4, 66
		if config.Kind == "hvae" {
			captions, across, pitch = []string{"input", "mean", "z0", "z1", "z2"}, 2, 92
		}
		for _, s := range []struct {
			n    int
			seed uint64
		}{{5, 1}, {5, 7}, {1, 1}} {
			p := picture(t, "reconstruct", "-data", "synthetic", "-checkpoint", name, "-n", strconv.Itoa(s.n), "-seed", strconv.FormatUint(s.seed, 10))
			groups, group := min(across, s.n), len(captions)*60-4
			rows := (s.n + groups - 1) / groups
			if want := image.Rect(0, 0, 16+groups*group+20*(groups-1), 8+26+pitch*rows-10+8); p.Bounds() != want {
				t.Fatalf("%v, %d digits: the picture has the bounds %v, want %v", config, s.n, p.Bounds(), want)
			}
			// Compute the expected images: the input, the reconstruction from the mean, and the images
			// along the flow.
			input := linalg.New[float32](784, s.n)
			for i := range s.n {
				data.Binarise(input, i, test.Image(i), random.Stream(s.seed, "mnist reconstruct pixels", i))
			}
			var tape ad.Tape[float32]
			network := model.NewNetwork(c.Config, model.Vars(tape.Const, c.Params))
			x := tape.Const(input)
			mean, std := network.Encode(x)
			rng := random.Stream(s.seed, "mnist reconstruct")
			epsilon, gamma0 := hvae.Noise(&tape, rng, 3, s.n), hvae.Noise(&tape, rng, 3, s.n)
			phase := hvae.Phase[float32]{Z: ad.Add(mean, ad.Mul(std, epsilon)), Rho: gamma0}
			want := []linalg.Matrix[float32]{input, decode(c, mean.Value), decode(c, phase.Z.Value)}
			var logJoints []linalg.Matrix[float32]
			if config.Kind == "hvae" {
				flow := network.Flow(x)
				logJoints = append(logJoints, flow.Target.LogJoint(phase.Z).Value)
				phase.Rho = ad.Mul(flow.Tempering.MomentumSD(), phase.Rho)
				for _, alpha := range flow.Tempering.Alpha().Value.Data {
					phase = hvae.Leapfrog(flow.Target, flow.StepSize, phase)
					phase.Rho = ad.Scale(phase.Rho, alpha)
					want, logJoints = append(want, decode(c, phase.Z.Value)), append(logJoints, flow.Target.LogJoint(phase.Z).Value)
				}
			}
			drawn := []image.Rectangle{image.Rect(8, 8, 8+groups*(group+20)-20, 8+16)} // captions
			for i := range s.n {
				for j, x := range want {
					at := image.Pt(8+(i%groups)*(group+20)+j*60, 34+(i/groups)*pitch)
					drawn = append(drawn, image.Rectangle{at, at.Add(image.Pt(56, 56))})
					if !shows(p, at.X, at.Y, x, i) {
						t.Errorf("%v, seed %d: picture %d of digit %d is not at %v", config, s.seed, j, i, at)
					}
					for k, other := range want {
						if k != j && shows(p, at.X, at.Y, other, i) {
							t.Errorf("%v: picture %d of digit %d is also drawn at %v", config, k, i, at)
						}
					}
					if j < 2 || config.Kind == "vae" {
						continue
					}
					label := fmt.Sprintf("%.0f", logJoints[j-2].At(0, i))
					if got, want := dots(p, at.X+28, at.Y+60, len(label)), spell(label); got != want {
						t.Errorf("the label below picture %d of digit %d is\n%s\nwant %s:%s", j, i, got, label, want)
					}
					drawn = append(drawn, image.Rect(at.X, at.Y+60, at.X+56, at.Y+76))
				}
			}
			if !whiteBut(p, drawn) {
				t.Errorf("%v: the picture is not white outside the %d digits, their captions and labels", config, s.n)
			}
			for i := range groups {
				for j, caption := range captions {
					want := spell(caption)
					if got := dots(p, 8+i*(group+20)+j*60+28, 8, len(caption)); got != want {
						t.Fatalf("the caption above column %d of group %d is\n%s\nwant %q:\n%s", j, i, got, caption, want)
					}
				}
			}
		}
	}
}

func TestReconstructionsByAModelThatHasDivergedFail(t *testing.T) {
	name, c := savedModel(t, drawnModels[1])
	for _, p := range c.Params {
		if p.Name == "decoder.deconv3.bias" {
			huge(p.Value.Data)
		}
	}
	write(t, c.File().Encode(), name)
	refused(t, filepath.Dir(name), []string{"reconstruct", "-data", "synthetic", "-checkpoint", name, "-n", "1", "-o", filepath.Join(t.TempDir(), "picture.png")},
		"log p(x, z_0) is not finite: the model "+name+" is damaged or has diverged")
}

// spell returns the pattern of dots that spells the text s. The function dots must return the same pattern.
func spell(s string) (text string) {
	const glyphs = `
       ###    #    ###   ###     #  #####   ##  #####  ###   ###                  #         #                                            
      #   #  ##   #   # #   #   ##  #      #        # #   # #   #                 #                                      #               
      #  ##   #       #     #  # #  ####  #        #  #   # #   # #####  ###   ####  ###   ##   ####  ####  ####  # ##  ####  #   # #   #
##### # # #   #      #    ##  #  #      # ####    #    ###   ####    #      # #   # #   #   #   # # # #   # #   # ##     #    #   # #   #
      ##  #   #     #       # #####     # #   #  #    #   #     #   #    #### #   # #####   #   # # # #   # #   # #      #    #   # # # #
      #   #   #    #    #   #    #  #   # #   #  #    #   #    #   #    #   # #   # #       #   # # # #   # ####  #      #    #   # # # #
       ###   ###  #####  ###     #   ###   ###   #     ###   ##   #####  ####  ####  ####  ###  # # # #   # #     #       ##   ####  # # 
                                                                                                            #                            `
	for _, line := range strings.Split(glyphs[1:], "\n") {
		var row []string
		for _, c := range s {
			i := 6 * strings.IndexRune("-0123456789zadeimnprtuw", c)
			row = append(row, line[i:i+5])
		}
		text += "\n" + strings.Join(row, " ")
	}
	return text
}

// dots returns a character for each dot (2×2 pixels) of a drawn text of n letters: # for black, a space for
// white, and ? otherwise. The text is centred on the pixel column middle, and its first pixel row is top.
func dots(p *image.Gray, middle, top, n int) string {
	var b strings.Builder
	for row := range 8 {
		b.WriteByte('\n')
		for column := range 6*n - 1 {
			x, y, sum := middle-(6*n-1)+2*column, top+2*row, 0
			for i := range 4 {
				sum += int(p.GrayAt(x+i%2, y+i/2).Y)
			}
			switch sum {
			case 0:
				b.WriteByte('#')
			case 4 * 255:
				b.WriteByte(' ')
			default:
				b.WriteByte('?')
			}
		}
	}
	return b.String()
}
