package score

// slab holds items by number, from 1, and takes back those that are not needed. It grows by pieces,
// so that nothing is ever copied.
type slab[T any] struct {
	pieces [][]T
	used   uint32
	free   uint32           // the first of the free ones, 0 if there is none
	next   func(*T) *uint32 // where an item has the number of the one after it
}

const slabPiece = 8192

func (s *slab[T]) at(i uint32) *T { return &s.pieces[(i-1)/slabPiece][(i-1)%slabPiece] }

// take returns the number of an item that is zero.
func (s *slab[T]) take() uint32 {
	if i := s.free; i != 0 {
		item := s.at(i)
		s.free = *s.next(item)
		var zero T
		*item = zero
		return i
	}
	if int(s.used)%slabPiece == 0 {
		s.pieces = append(s.pieces, make([]T, slabPiece))
	}
	s.used++
	return s.used
}

// push puts a new item at the end of a list.
func (s *slab[T]) push(list *uint32, item T) *T {
	i := s.take()
	to := s.at(i)
	*to = item
	*s.next(to) = 0
	for *list != 0 {
		list = s.next(s.at(*list))
	}
	*list = i
	return to
}

// sieve takes the items of a list back that are not to be kept.
func (s *slab[T]) sieve(list *uint32, keep func(*T) bool) {
	for *list != 0 {
		i := *list
		item := s.at(i)
		if keep(item) {
			list = s.next(item)
			continue
		}
		*list = *s.next(item)
		*s.next(item) = s.free
		s.free = i
	}
}

// all calls do for the items of a list until it returns false.
func (s *slab[T]) all(list uint32) func(do func(*T) bool) {
	return func(do func(*T) bool) {
		for list != 0 {
			item := s.at(list)
			list = *s.next(item)
			if !do(item) {
				return
			}
		}
	}
}
