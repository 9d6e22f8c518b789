package main

// transpose returns the assembly file with the transpose kernels. A kernel transposes bands of n rows, four columns (a
// quad) at a time, where n is the number of float32 elements in a vector. For each i < 4, the kernel loads the quad's
// elements in rows i, i + 4, i + 8, … of the band into register i. Then it transposes the 4×4 blocks that the four
// registers form, so that each register contains n elements of one row of dst.
func transpose(arch *architecture) string {
	registers := []string{
		"src: address of a quad in src", "src8: address of row 8 of the quad",
		"row1: row stride of src", "row3: 3 times the row stride",
		"row5: 5 times the row stride", "row7: 7 times the row stride",
		"dst: address of a row of dst", "dstRow: row stride of dst",
		"quads: number of quads left", "bands: number of bands left", "matrices: number of matrices left",
		"srcBand: address of the band in src", "dstBand: address of the band in dst",
	}
	if arch == arm64 {
		registers = append(registers, "row2: 2 times the row stride")
	}
	w := newFile(arch, "transpose", "These kernels transpose matrices; see transpose.go and transposeArgs.", registers...)
	for _, set := range arch.sets {
		w.isa = set
		n := w.bytes / 4
		w.begin("transpose"+w.name, "The bands have %d rows.", n)
		w.loadStride("srcRow", "row", min(n, 8))
		w.code("MOVE @dstRow, dstRow; MOVE @src, srcBand; MOVE @dst, dstBand; MOVE @matrices, matrices")
		w.code("matrix:; MOVE @bands, bands")
		w.code("band:; MOVE srcBand, src; INDEX8 row1, src, src8; MOVE dstBand, dst; MOVE @quads, quads")
		w.code("quad:")
		w.comment("Load four columns of rows i, i + 4, i + 8, … of the band into register i.")
		for i := range 4 {
			w.setVectors(4, 4)
			w.load(w.at("src", "row", i), i)
			w.setVectors(4, n)
			for part := 1; part < n/4; part++ {
				base := [...]string{"src", "src8"}[part/2]
				w.insert(part, w.at(base, "row", i+4*(part%2)), i)
			}
		}
		w.comment("Transpose the 4×4 blocks.")
		for i := range 2 {
			w.vector("interleaveLow", i, 2+i, 4+2*i)
			w.vector("interleaveHigh", i, 2+i, 5+2*i)
		}
		for i := range 2 {
			w.vector("interleaveLow", 4+i, 6+i, 2*i)
			w.vector("interleaveHigh", 4+i, 6+i, 2*i+1)
		}
		w.comment("Store four rows of dst.")
		for i := range 4 {
			w.store(i, address{base: "dst"})
			w.code("ADD dstRow, dst")
		}
		w.code("ADD $16, src; ADD $16, src8; LOOP quads, quad")
		w.comment("Go to the next band, then to the next matrix.")
		for range max(1, n/8) {
			w.code("INDEX%d row1, srcBand, srcBand", min(n, 8))
		}
		w.code("ADD $%d, dstBand; LOOP bands, band", w.bytes)
		w.code("MOVE @srcNext, src; ADD src, srcBand; MOVE @dstNext, src; ADD src, dstBand; LOOP matrices, matrix; RETURN")
	}
	return w.finish()
}
